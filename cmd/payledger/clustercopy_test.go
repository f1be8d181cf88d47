package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"payledger/notifier/health/healthtest"
)

// TestClusterRefusesACopiedNode serves a copy of a node's directory beside that node, at
// another address. Exactly one of the two ends, the one that the others heard of later; and a
// node that is killed and started at once goes on.
func TestClusterRefusesACopiedNode(t *testing.T) {
	unraced(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	const c = 2
	n.servers[c].stops(t)
	copied := &nodes{servers: make([]*server, len(nodeNames)), dirs: []string{"", "", filepath.Join(t.TempDir(), "copy")}, flags: n.flags}
	copied.more = [][]string{c: {"--node-listen", healthtest.FreeAddress(t)}}
	if err := os.CopyFS(copied.dirs[c], os.DirFS(n.dirs[c])); err != nil {
		t.Fatal(err)
	}
	n.start(t, c)
	works := func() {
		t.Helper()
		eventually(t, "node c records payments", func() bool {
			a, err := n.servers[c].send("POST", "/v1/payments", `{"amount":"15.00"}`)
			return err == nil && a.Status == 201
		})
	}
	works()
	ends := func(what string, s *server) {
		t.Helper()
		code, log := s.ends(t, what)
		if want := "stopping node c: another process serves this node, or a copy of its directory"; code != 3 || strings.Count(log, want) != 1 {
			t.Errorf("%s: exit code %d, want 3 and one line that says %q\n%s", what, code, want, log)
		}
	}
	begin := func(s *server) (ready chan error) {
		t.Helper()
		out, err := s.begin()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.cmd.Process.Kill() }) //nolint:errcheck // it may be gone already
		ready = make(chan error, 1)
		go func() { ready <- s.ready(out) }()
		return ready
	}

	beside := copied.command(c)
	begin(beside)
	ends("a copy beside the node", beside)
	works()

	signal := func(s syscall.Signal) {
		t.Helper()
		if err := n.servers[c].cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	beside = copied.command(c)
	if err := <-begin(beside); err != nil {
		t.Errorf("a copy while the node is stopped: %v", err)
	}
	signal(syscall.SIGCONT)
	eventually(t, "one of the two ends", func() bool { return beside.killed() || n.servers[c].killed() })
	if beside.killed() {
		ends("the copy", beside)
		n.servers[c].kill()
	} else {
		ends("the node that was stopped", n.servers[c])
		beside.kill()
	}

	n.start(t, c)
	works()
	n.servers[c].kill()
	n.start(t, c)
	works()

	n.servers[c].kill()
	beside, n.servers[c] = copied.command(c), n.command(c)
	begin(beside)
	begin(n.servers[c])
	eventually(t, "one of two that were started together ends", func() bool { return beside.killed() || n.servers[c].killed() })
	first, other := beside, n.servers[c]
	if n.servers[c].killed() {
		first, other = n.servers[c], beside
	}
	ends("one of two that were started together", first)
	eventually(t, "the other one goes on", func() bool {
		a, err := other.send("GET", "/readyz", "")
		return err == nil && a.Status == 200
	})
}
