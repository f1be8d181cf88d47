//go:build !linux

package baseline

import "os"

func dataSync(f *os.File) error { return f.Sync() }
