package main

import (
	"maps"
	"os"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
)

// TestFirstNodeIsLostAtOnce: the node that began the cluster is lost so soon that chance
// decides what the others have of it.
func TestFirstNodeIsLostAtOnce(t *testing.T) {
	inLong(t)
	t.Parallel()
	for _, after := range []time.Duration{0, 50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			n, h := newNodes(t), newHook(t)
			n.start(t, 0, 1, 2)
			time.Sleep(after)
			n.loses(t, 0)
			n.dirs[0] = n.dirs[1] // where commands are given
			n.project(t)
			n.notifies(t, 1, h)
			ids := n.payments(t, 1, 3)
			for i, id := range ids {
				n.pays(t, 1+i%2, id)
			}
			eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
			n.handsOver(t, h, 1, 2)
		})
	}
}

// TestLOGIsLost: without the common write-ahead log on all three machines, or with that of one
// of them gone, the nodes go on by themselves with all that was answered.
func TestLOGIsLost(t *testing.T) {
	unraced(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	ids := n.payments(t, 0, 6)
	for _, lost := range [][]int{{1}, {0, 1, 2}} {
		for _, i := range lost {
			n.servers[i].kill()
		}
		for _, i := range lost {
			if err := os.RemoveAll(datadir.Dir(n.dirs[i]).ClusterNATS()); err != nil {
				t.Fatal(err)
			}
		}
		n.start(t, lost...)
		for i, id := range ids {
			if a, ok := n.persist(t, i, "GET", "/v1/payments/"+id, ""); !ok || a.Status != 200 {
				t.Errorf("payment %s: %d %s", id, a.Status, a.Body)
			}
		}
		ids = append(ids, n.payments(t, 1, 3)...)
		n.agree(t, len(ids))
	}
}

// payments creates payments and answers their ids.
func (n *nodes) payments(t testing.TB, first, count int) (ids []string) {
	t.Helper()
	for i := range count {
		a, ok := n.persist(t, first+i, "POST", "/v1/payments", `{"amount":"15.00"}`)
		if !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
		ids = append(ids, a.text(t, "id"))
	}
	return ids
}

// loses kills a node and removes all it had.
func (n *nodes) loses(t testing.TB, node int) {
	t.Helper()
	n.servers[node].kill()
	if err := os.RemoveAll(n.dirs[node]); err != nil {
		t.Fatal(err)
	}
}

// handsOver has the office go between the two nodes that are left: the other one knows what
// was sent, and nothing is sent again.
func (n *nodes) handsOver(t testing.TB, h *hook, one, other int) {
	t.Helper()
	was := n.leader(t, one)
	to := one + other - was
	ids := n.payments(t, one, 2)
	for _, id := range ids {
		n.pays(t, one, id)
	}
	n.delivered(t, was, h, ids)
	before := h.heardOf(ids)
	eventually(t, "node "+nodeNames[to]+" takes over", func() bool {
		_, code := payledger(t, "cluster", "promote", nodeNames[to], "--data", n.dirs[one])
		return code == 0
	})
	more := n.payments(t, to, 2)
	for _, id := range more {
		n.pays(t, to, id)
	}
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(more) })
	if after := h.heardOf(ids); !maps.Equal(before, after) {
		t.Errorf("notifications that were delivered: before the hand-over %v, then %v", before, after)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrongs {
		t.Error(w)
	}
}
