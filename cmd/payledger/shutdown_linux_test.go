package main

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"payledger/cmd/payledger/cli"
	"payledger/notifier/health/healthtest"
)

// TestShutdownWithFullLog stops a server whose log nobody reads any more, so that
// every log record blocks.
func TestShutdownWithFullLog(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes as long as a shutdown may")
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	defer write.Close()
	s := &server{
		cmd:    exec.Command("payledger", "demo", "--json", "--listen", "127.0.0.1:0", "--log-level", "info", "--shutdown-timeout", "1s"),
		stderr: &healthtest.Buffer{}, exited: make(chan struct{}),
	}
	s.cmd.Stderr = write
	t.Cleanup(s.kill)
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
	raw := int(read.Fd())
	size, err := unix.FcntlInt(uintptr(raw), unix.F_SETPIPE_SZ, 4096)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		var err error
		for err == nil { // to the last byte, so that no record fits in; ends with the pipe
			_, err = write.Write([]byte{' '})
		}
	}()
	eventually(t, "the pipe is full", func() bool {
		n, err := unix.IoctlGetInt(raw, unix.TIOCINQ)
		return err == nil && n == size
	})
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatal("the server does not end")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != cli.ExitFailed {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailed)
	}
}
