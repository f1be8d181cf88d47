package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/notifier/health/healthtest"
)

// TestNodesBehindNAT makes a cluster of nodes that reach each other at addresses which are
// none of their own machines': what is sent there comes in at another one. One of them was
// served alone before, and one gets its log from another node.
func TestNodesBehindNAT(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := &nodes{servers: make([]*server, len(nodeNames))}
	var outside []string
	dir := t.TempDir()
	for _, name := range nodeNames {
		in := healthtest.FreeAddress(t)
		outside = append(outside, name+"="+leadsTo(t, in))
		n.dirs = append(n.dirs, filepath.Join(dir, name))
		n.more = append(n.more, []string{"--node-listen", in})
	}
	does(t, "init", "--data", n.dirs[0])
	does(t, "cluster", "init", "--data", n.dirs[0], "--nodes", strings.Join(outside, ","))
	first := n.command(0)
	out, err := first.begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.kill)
	go first.ready(out) //nolint:errcheck // it is never ready
	for i := range nodeNames[1:] {
		eventually(t, "node "+nodeNames[i+1]+" joins", func() bool {
			_, code := payledger(t, n.joinArgs(t, 0, i+1)...)
			return code == 0
		})
	}
	first.stops(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	for i := range n.servers {
		if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`); !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
	}
	n.servers[2].stops(t)
	if err := os.Remove(datadir.Dir(n.dirs[2]).Ledger()); err != nil {
		t.Fatal(err)
	}
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
