//go:build !linux

package boltfile

// Reserve promises nothing on this system: see reserve_linux.go.
func (f *File) Reserve(int64) error { return nil }
