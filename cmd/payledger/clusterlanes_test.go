package main

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/wire"
)

// TestFirstNodeIsLostWithItsLaneFile: the node that began the cluster has sent webhooks and
// is lost before another node could get its lane file. The two that are left route
// payments and send webhooks: of every payment what is newest, and nothing older.
func TestFirstNodeIsLostWithItsLaneFile(t *testing.T) {
	inLong(t)
	t.Parallel()
	n, h := newNodes(t), newHook(t)
	for _, dir := range n.dirs[1:] { // in the way of a lane file
		if err := os.Mkdir(datadir.Dir(dir).Lanes(), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.start(t, 0, 1, 2)
	n.project(t)
	does(t, "webhook", "add", h.URL+"/hook", "--data", n.dirs[0])
	eventually(t, "the first node is the sequencer", func() bool {
		_, code := payledger(t, "cluster", "promote", "a", "--data", n.dirs[0])
		return code == 0
	})
	paid := n.payments(t, 0, 4)
	for i, id := range paid {
		n.pays(t, i, id)
	}
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(paid) })
	open := n.payments(t, 0, 2)

	n.loses(t, 0)
	began := time.Now()
	for _, dir := range n.dirs[1:] {
		if err := os.Remove(datadir.Dir(dir).Lanes()); err != nil {
			t.Fatal(err)
		}
	}
	before := h.heardOf(paid)
	open = append(open, n.payments(t, 1, 2)...)
	for i, id := range open {
		n.pays(t, 1+i%2, id)
	}
	t.Logf("payments were routed %v after the node was lost", time.Since(began))
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(open) })
	t.Logf("webhooks came %v after it", time.Since(began))
	eventually(t, "every payment's newest event is notified again", func() bool {
		after := h.heardOf(paid)
		for id := range before {
			if after[id] == before[id] {
				return false
			}
		}
		return true
	})
	const says = "begins a new one, as if it had lost lanes.db"
	if !strings.Contains(n.servers[1].stderr.String()+n.servers[2].stderr.String(), says) {
		t.Errorf("neither node says that it %s", says)
	}
	n.handsOver(t, h, 1, 2)
}

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
			n.sequencer(t, 1)     // a command waits no longer than ten seconds for one
			n.project(t)
			does(t, "webhook", "add", h.URL+"/hook", "--data", n.dirs[1])
			ids := n.payments(t, 1, 3)
			for i, id := range ids {
				n.pays(t, 1+i%2, id)
			}
			eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
			n.handsOver(t, h, 1, 2)
		})
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

// handsOver has the office go between the two nodes that are left: the other one has the
// lane file by then, and nothing is sent again.
func (n *nodes) handsOver(t testing.TB, h *hook, one, other int) {
	t.Helper()
	was := n.sequencer(t, one)
	to := one + other - was
	ids := n.payments(t, one, 2)
	for _, id := range ids {
		n.pays(t, one, id)
	}
	eventually(t, "all notifications are delivered", func() bool {
		var status wire.Status
		if err := json.Unmarshal([]byte(does(t, "status", "--json", "--data", n.dirs[was])), &status); err != nil {
			t.Fatal(err)
		}
		return status.NotificationsPending == 0 && h.knows(ids)
	})
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
