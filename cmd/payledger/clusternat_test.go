package main

import (
	"net"
	"path/filepath"
	"sync"
	"testing"

	"payledger/notifier/health/healthtest"
)

// TestNodesBehindNAT makes a cluster of nodes that reach each other at addresses which are
// none of their own machines': what is sent there comes in at another one. One of them was
// served alone before, and one gets its log from another node.
func TestNodesBehindNAT(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := &nodes{servers: make([]*server, len(nodeNames))}
	var outside, inside []string
	dir := t.TempDir()
	for _, name := range nodeNames {
		in := healthtest.FreeAddress(t)
		inside = append(inside, in)
		outside = append(outside, name+"="+leadsTo(t, in))
		n.dirs = append(n.dirs, filepath.Join(dir, name))
		n.more = append(n.more, []string{"--node-listen", in})
	}
	does(t, "init", "--data", n.dirs[0])
	does(t, append([]string{"cluster", "init", "--data", n.dirs[0]}, outside...)...)
	for i, name := range nodeNames[1:] {
		token, invited := invite(t, n.dirs[0], name, "--listen", inside[0])
		does(t, "cluster", "join", token, "--data", n.dirs[i+1])
		if err := invited.Wait(); err != nil {
			t.Fatalf("inviting %s: %v", name, err)
		}
	}
	n.start(t, 0, 1, 2)
	n.project(t)
	for i := range n.servers {
		if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`); !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
	}
	n.servers[2].stops(t)
	does(t, "cluster", "rebuild", "--data", n.dirs[2], "--node-listen", inside[2])
	n.start(t, 2)
	n.agree(t, len(n.servers))
}

// leadsTo is an address from which connections lead to another one.
func leadsTo(t *testing.T, target string) string {
	t.Helper()
	w := &network{held: map[way]bool{}, open: map[net.Conn]bool{}}
	w.changed = sync.NewCond(&w.mu)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.all.Go(func() { w.accept(l, way{}, target) })
	t.Cleanup(func() { w.end(l) })
	return l.Addr().String()
}
