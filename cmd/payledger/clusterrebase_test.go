package main

import (
	"os"
	"strings"
	"sync"
	"testing"

	"payledger/cmd/payledger/datadir"
)

// TestClusterWithoutItsLOG: the directories of JetStream are removed on all three nodes, of
// which one was behind. They wait, and go on after one command: with every payment, and with
// webhooks that go forward. The same where a machine is lost besides, once it is made anew.
func TestClusterWithoutItsLOG(t *testing.T) {
	inLong(t)
	t.Parallel()
	n, h := newNodes(t), newHook(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	does(t, "webhook", "add", h.URL+"/hook", "--data", n.dirs[0])
	var ids []string
	pay := func(times int, nodes ...int) {
		t.Helper()
		for i := range times {
			at := nodes[i%len(nodes)]
			a, ok := n.persist(t, at, "POST", "/v1/payments", `{"amount":"15.00"}`)
			if !ok || a.Status != 201 {
				t.Fatalf("POST: %d %s", a.Status, a.Body)
			}
			id := a.text(t, "id")
			ids = append(ids, id)
			n.pays(t, at, id)
		}
	}
	refuses := func(want string) {
		t.Helper()
		eventually(t, "cluster rebase says "+want, func() bool { // on a busy machine other nodes do not answer in time, too
			out, code := payledger(t, "cluster", "rebase", "--data", n.dirs[1])
			if code != 5 {
				t.Fatalf("cluster rebase: exit code %d, %s, want 5", code, out)
			}
			return strings.Contains(out, want)
		})
	}
	pay(9, 0, 1, 2)
	refuses("the NATS servers have LOG, and it is left as it is")
	n.servers[0].stops(t)
	pay(12, 1, 2)
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
	eventually(t, "the ends of all attempts are recorded", func() bool {
		return strings.Contains(does(t, "status", "--json", "--data", n.dirs[1]), `"notifications_pending":0`)
	})
	n.servers[1].kill()
	n.servers[2].kill()
	for _, dir := range n.dirs {
		if err := os.RemoveAll(datadir.Dir(dir).ClusterNATS()); err != nil {
			t.Fatal(err)
		}
	}
	before := h.heardOf(ids)

	var waiting sync.WaitGroup
	waiting.Go(func() { n.start(t, 0, 1) })
	says := func(node int, want string) {
		t.Helper()
		eventually(t, "node "+nodeNames[node]+" says "+want, func() bool {
			out, code := payledger(t, "cluster", "status", "--data", n.dirs[node])
			return code == 1 && strings.Contains(out, want)
		})
	}
	says(1, "waiting for LOG")
	refuses("no answer from node c")
	waiting.Go(func() { n.start(t, 2) })
	says(2, `Once all three nodes are served: "payledger cluster rebase"`)
	eventually(t, "LOG is made anew", func() bool { // a node that is slow to answer makes it refuse, and nothing is changed
		out, code := payledger(t, "cluster", "rebase", "--data", n.dirs[0])
		return code == 0 && strings.Contains(out, "the common write-ahead log was made anew; node ")
	})
	waiting.Wait()
	for _, id := range ids {
		if a, ok := n.persist(t, 0, "GET", "/v1/payments/"+id, ""); !ok || a.text(t, "status") != "paid" {
			t.Errorf("payment %s: %s", id, a.Body)
		}
	}
	refuses("the NATS servers have LOG, and it is left as it is")
	old := len(ids)
	pay(9, 0, 1, 2)
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
	n.agree(t, len(ids))
	for id, times := range h.heardOf(ids[:old]) {
		if times != before[id] {
			t.Errorf("of payment %s %d notifications came, and %d before", id, times, before[id])
		}
	}

	for i, s := range n.servers {
		s.stops(t)
		if err := os.RemoveAll(datadir.Dir(n.dirs[i]).ClusterNATS()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.RemoveAll(n.dirs[2]); err != nil {
		t.Fatal(err)
	}
	joins(t, n.dirs[0], "c", n.dirs[2])
	waiting.Go(func() { n.start(t, 0, 1, 2) })
	says(1, `Once all three nodes are served: "payledger cluster rebase"`)
	does(t, "cluster", "rebase", "--data", n.dirs[1])
	waiting.Wait()
	pay(6, 0, 1, 2)
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
	n.agree(t, len(ids))
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrongs {
		t.Error(w)
	}
}
