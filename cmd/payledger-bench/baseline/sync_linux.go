package baseline

import (
	"os"

	"golang.org/x/sys/unix"
)

// dataSync syncs a file's content.
func dataSync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
