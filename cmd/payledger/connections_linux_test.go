package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"payledger/cmd/payledger/cli"
)

// limited runs a command under a limit of open files.
func limited(files int, args ...string) *exec.Cmd {
	return exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d; exec payledger "$@"`, files), "payledger"}, args...)...)
}

// TestStalledClientsBlockNobody: few files can be opened, and connections without
// credentials send requests and never read the answers. Customers can still pay, the
// operator can read the metrics, and the log and JetStream can open their files.
func TestStalledClientsBlockNobody(t *testing.T) {
	t.Parallel()
	s, err := runServer(limited(256, "demo", "--admin-listen=127.0.0.1:0", "--json", "--listen=127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	for i := range 400 {
		c := tinyClient(t, strings.TrimPrefix(s.BaseURL, "http://"))
		ask := "GET /openapi.yaml HTTP/1.1\r\nHost: x\r\n\r\n"
		switch i % 4 {
		case 0:
			fmt.Fprint(c, ask)
		case 1:
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(c, strings.Repeat(ask, 100)) // more than any buffer holds
		case 2:
			fmt.Fprint(c, ask[:20])
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	eventually(t, "nobody else is answered", func() bool {
		res, err := client.Get(s.BaseURL + "/readyz")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	s.paid(t)
	res, err := client.Get("http://" + s.AdminAddress + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	metrics, err := io.ReadAll(res.Body)
	if err != nil || !strings.Contains(string(metrics), `payledger_connections_max{listener="public"} 64`) ||
		strings.Contains(string(metrics), `payledger_connections_dropped_total{listener="public",reason="gave_way"} 0`) ||
		!strings.Contains(string(metrics), `payledger_connections_refused_total{listener="public",reason="files"} 0`) {
		t.Errorf("%v\n%s", err, metrics)
	}
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)); err != nil || len(files) > 160 {
		t.Errorf("%d files are open, %v", len(files), err)
	}
	if !strings.Contains(s.stderr.String(), "the limit of connections is reached") {
		t.Errorf("no record says that there is no room\n%s", s.stderr)
	}
}

// tinyClient is a client with a receive buffer of 1 KiB.
func tinyClient(t *testing.T, addr string) net.Conn {
	t.Helper()
	d := net.Dialer{Timeout: patience, Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1<<10) })
	}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestRoomForConnections(t *testing.T) {
	t.Parallel()
	d := t.TempDir() + "/d"
	if out, code := payledger(t, "init", "--data", d); code != 0 {
		t.Fatal(out)
	}
	for _, c := range []struct {
		files int
		args  []string
		code  int
		says  string
	}{
		{140, nil, cli.ExitFailed, "the limit of open files is 140, too few to serve: want 160 or more"},
		{300, []string{"--max-connections=200"}, cli.ExitUsage, "allows 172"},
		{300, []string{"--max-connections=0"}, cli.ExitUsage, "want 1 or more"},
		{300, []string{"--max-connections-per-address=-1"}, cli.ExitUsage, "want 0 for no limit"},
	} {
		out, err := limited(c.files, append([]string{"serve", "--data", d, "--listen=127.0.0.1:0"}, c.args...)...).CombinedOutput()
		code := 0
		if e, ok := errors.AsType[*exec.ExitError](err); ok {
			code = e.ExitCode()
		}
		if code != c.code || !strings.Contains(string(out), c.says) {
			t.Errorf("%d files, %q: exit code %d\n%s", c.files, c.args, code, out)
		}
	}
	// A soft limit below the hard one is raised. The flags are obeyed.
	for script, want := range map[string]string{
		`ulimit -Sn 64; ulimit -Hn 5001; exec payledger "$@"`:                     `"max_connections":2436`,
		`ulimit -n 300; exec payledger "$@" --max-connections=150`:                `"max_connections":150`,
		`ulimit -n 300; PAYLEDGER_MAX_CONNECTIONS=100 exec payledger "$@"`:        `"max_connections":100`,
		`ulimit -n 300; exec payledger "$@" --max-connections-per-address=0 # 86`: `"max_connections":86`,
	} {
		s, err := runServer(exec.Command("sh", "-c", script, "payledger", "serve", "--data", d, "--json", "--listen=127.0.0.1:0"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.kill)
		if code := s.stop(); code != 0 || !strings.Contains(s.stderr.String(), want) {
			t.Errorf("%s: exit code %d, want %s in\n%s", script, code, want, s.stderr)
		}
	}
}

// TestSilentReceiversTakeNoFilesFromOthers: few files can be opened, and endpoints
// of several projects accept notifications and never answer. JetStream, the log and
// clients still get their files, and other merchants their notifications.
func TestSilentReceiversTakeNoFilesFromOthers(t *testing.T) {
	t.Parallel()
	hole := newHole(t)
	s, err := runServer(limited(256, "demo", "--data", t.TempDir()+"/d", "--webhook-allow-private", "--admin-listen=127.0.0.1:0", "--json", "--listen=127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	to := newHook(t)
	other := *s
	other.newProject(t)
	hear := func(s *server, n int, url string) {
		for i := range n {
			s.do(t, http.StatusCreated, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":"%s/%d","kinds":["payment.created"]}`, url, i))
		}
	}
	pay := func(s *server, n int) {
		for range n {
			s.do(t, http.StatusCreated, "POST", "/v1/payments", `{"amount":"1500.00"}`)
		}
	}
	hear(&other, 1, to.URL)
	pay(&other, 1)
	heard := func(n int) func() bool {
		return func() bool {
			to.mu.Lock()
			defer to.mu.Unlock()
			return len(to.body) == n
		}
	}
	eventually(t, "the first notification", heard(1))
	for range 5 {
		silent := *s
		silent.newProject(t)
		hear(&silent, 16, hole.url)
		pay(&silent, 8)
	}
	eventually(t, "endpoints wait", func() bool {
		return !strings.Contains(string(s.scrape(t)), "payledger_webhook_endpoints_waiting 0\n")
	})
	pay(&other, 20)
	eventually(t, "other merchants' notifications", heard(21))
	s.paid(t)
	if metrics := string(s.scrape(t)); !strings.Contains(metrics, "payledger_webhook_in_flight_max 16\n") {
		t.Errorf("another bound\n%s", metrics)
	}
	if n := hole.most(); n < 8 || n > 16 {
		t.Errorf("receivers that never answer had %d connections, want 8 to 16", n)
	}
	if files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)); err != nil || len(files) > 160 {
		t.Errorf("%d files are open, %v", len(files), err)
	}
	if strings.Contains(s.stderr.String(), "too many open files") || !strings.Contains(s.stderr.String(), "webhook endpoints wait") {
		t.Errorf("the log\n%s", s.stderr)
	}
}

// hole accepts connections and never answers.
type hole struct {
	url string

	mu   sync.Mutex
	open int
	max  int
}

func newHole(t *testing.T) *hole {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hole{url: "http://" + l.Addr().String()}
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			h.add(1)
			wait.Go(func() {
				_, _ = io.Copy(io.Discard, c) // until the sender hangs up
				h.add(-1)
				c.Close()
			})
		}
	})
	t.Cleanup(func() { // after the server's end
		l.Close()
		wait.Wait()
	})
	return h
}

func (h *hole) add(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += n
	h.max = max(h.max, h.open)
}

// most is the largest number of connections at the same time.
func (h *hole) most() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.max
}
