//go:build !unix

package process

// openFileLimit is how many files the process may have open, if that is
// limited.
func openFileLimit() (n uint64, limited bool) { return 0, false }
