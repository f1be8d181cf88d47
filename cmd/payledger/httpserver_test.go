package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestClosedTerminal: a demo whose terminal is closed leaves nothing behind.
func TestClosedTerminal(t *testing.T) {
	t.Parallel()
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("the tests were started with nohup, which the demo inherits: it goes on when its window is closed, as it should")
	}
	s := start(t, "demo")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Fatal("it goes on")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("%s\n%s", s.cmd.ProcessState, s.stderr)
	}
	if _, err := os.Stat(s.Data); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary directory is left behind: %v", err)
	}
}

// TestOptionsOfTheServer: OPTIONS *, the one request target that is not a path, gets
// our answer, not net/http's.
func TestOptionsOfTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	c, err := (&net.Dialer{Timeout: patience}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := fmt.Fprint(c, "OPTIONS * HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(answer), "HTTP/1.1 404 ") || !strings.Contains(string(answer), `"code":"path_not_found"`) {
		t.Errorf("%s", answer)
	}
}

func TestReadySaysWhereEverythingListens(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--log-level=info", "--admin-listen=:0", "--nats-listen=127.0.0.1:0")
	for name, addr := range map[string]string{"admin_listen": s.AdminAddress, "nats_listen": s.NATSAddress} {
		want := fmt.Sprintf("%q:%q", name, addr)
		eventually(t, "the log says "+want, func() bool { return addr != "" && strings.Contains(s.stderr.String(), want) })
	}
}
