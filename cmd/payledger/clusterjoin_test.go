package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/notifier/health/healthtest"
)

// TestJoin makes a cluster of a directory with payments, as --help says, and serves it. Who
// has not the key of the cluster gets nothing. A directory that is lost joins again.
func TestJoin(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a")
	alone := start(t, "demo", "--data", dir)
	id := alone.do(t, 201, "POST", "/v1/payments", `{"amount":"15.00"}`).text(t, "id")
	alone.stops(t)
	n := &nodes{servers: make([]*server, len(nodeNames)), dirs: []string{dir}}
	var addresses []string
	for _, name := range nodeNames {
		addresses = append(addresses, name+"="+healthtest.FreeAddress(t))
	}
	for _, name := range nodeNames[1:] {
		n.dirs = append(n.dirs, filepath.Join(t.TempDir(), name))
	}
	for _, wrong := range []string{"a=127.0.0.1:1,b=127.0.0.1:2", "a=127.0.0.1:1,a=127.0.0.1:2,c=127.0.0.1:3", "a=127.0.0.1,b=127.0.0.1:2,c=127.0.0.1:3", "A=127.0.0.1:1,b=127.0.0.1:2,c=127.0.0.1:3"} {
		if out, code := payledger(t, "cluster", "init", "--data", n.dirs[0], "--nodes", wrong); code != 2 || !strings.Contains(out, "--nodes: ") {
			t.Errorf("--nodes %s: exit code %d, %s", wrong, code, out)
		}
	}
	does(t, "cluster", "init", "--data", n.dirs[0], "--nodes", strings.Join(addresses, ","))
	if info, err := os.Stat(datadir.Dir(n.dirs[0]).ClusterKey()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("cluster.key: %v, %v", info, err)
	}
	first := n.command(0)
	out, err := first.begin()
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan error, 1)
	go func() { ready <- first.ready(out) }()
	t.Cleanup(first.kill)
	eventually(t, "the first node waits", func() bool {
		out, _ := payledger(t, "cluster", "status", "--data", n.dirs[0])
		return strings.Contains(out, "a (here)  waiting")
	})

	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("0", 64)), 0o600); err != nil {
		t.Fatal(err)
	}
	with := n.joinArgs(t, 0, 1)
	with[5] = key
	if out, code := payledger(t, with...); code != 1 || !strings.Contains(out, "certificate") && !strings.Contains(out, "tls") {
		t.Errorf("with another key: exit code %d, %s", code, out)
	}
	with = n.joinArgs(t, 0, 1)
	with[7] = "d"
	if out, code := payledger(t, with...); code != 2 || !strings.Contains(out, "no node d") {
		t.Errorf("with the name of no node: exit code %d, %s", code, out)
	}
	n.joins(t, 0, 1)
	n.joins(t, 0, 2)
	n.start(t, 1, 2)
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	n.servers[0] = first
	for _, s := range n.servers {
		s.ProjectID, s.APIKey = alone.ProjectID, alone.APIKey
		s.do(t, 200, "GET", "/v1/payments/"+id, "")
	}
	n.loses(t, 2)
	if a, ok := n.persist(t, 0, "POST", "/v1/payments", `{"amount":"15.00"}`); !ok || a.Status != 201 {
		t.Errorf("POST: %d %s", a.Status, a.Body)
	}
	n.joins(t, 1, 2)
	n.start(t, 2)
	n.agree(t, 2)
}
