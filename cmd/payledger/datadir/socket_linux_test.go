package datadir_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/storetest"
)

// TestListenSocketOnAFullDisk opens the admin socket where there is no room for
// a directory, past the socket of a process that was killed.
func TestListenSocketOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := storetest.NewDisk(t, 16)
	d := datadir.Dir(filepath.Join(disk.Dir, "data"))
	if err := os.Mkdir(string(d), 0o755); err != nil { // others may enter it
		t.Fatal(err)
	}
	fillUp(t, filepath.Join(disk.Dir, "filler"))
	if err := os.Mkdir(filepath.Join(string(d), "more"), 0o700); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("making a directory on a full disk: %v", err)
	}
	name := filepath.Join(string(d), "admin.sock")
	if err := syscall.Mknod(name, syscall.S_IFSOCK|0o600, 0); err != nil {
		t.Fatal(err)
	}

	l, err := d.ListenSocket()
	if err != nil {
		t.Fatalf("opening the admin socket: %v", err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode() != fs.ModeSocket|0o600 {
		t.Errorf("the socket: %v, %v", info, err)
	}
	conn, err := d.DialSocket(t.Context())
	if err != nil {
		t.Fatalf("connecting to it: %v", err)
	}
	if err := errors.Join(conn.Close(), l.Close()); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is there after the end: %v", err)
	}
}

// fillUp writes a file until the disk takes no byte more, not even from root.
func fillUp(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(bytes.Repeat([]byte{1}, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			t.Fatal(err)
		}
	}
	// Blocks that were promised are taken.
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}
