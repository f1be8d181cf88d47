package main

import (
	"os"
	"path/filepath"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/wire"
)

// TestNodeTakesLog takes the log of a node from another one: of a node that stopped because
// its log was altered, of one whose file is damaged, and of one whose file is lost. Each goes
// on with the others.
func TestNodeTakesLog(t *testing.T) {
	inLong(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	payments := 0
	pay := func() {
		for i := range 3 {
			if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00","description":"order-1042"}`); !ok || a.Status != 201 {
				t.Fatalf("POST: %d %s", a.Status, a.Body)
			}
			payments++
		}
	}
	pay()
	n.agree(t, payments)
	of := 2
	if n.leader(t, 0) == of {
		of = 1
	}
	dir := n.dirs[of]
	ledger := filepath.Join(dir, "ledger.db")
	for name, harm := range map[string]func(){
		"altered": func() {
			alterPayment(t, dir)
			for _, name := range []string{"projections.db", "checkpoint"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			n.start(t, of)
			eventually(t, "the altered node stops", func() bool {
				all, _ := n.status(t, 0)
				return all[of].Role == wire.RoleStopped
			})
			n.servers[of].stops(t)
		},
		"damaged": func() {
			if err := os.Truncate(ledger, int64(os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
			refused(t, 3, dir)
		},
		"lost": func() {},
	} {
		n.servers[of].stops(t)
		pay()
		harm()
		if name == "altered" { // it has signed a checkpoint of its own tree, unless another one's showed it the difference at once
			if err := datadir.RemoveIfExists(filepath.Join(dir, "checkpoint")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Remove(ledger); err != nil {
			t.Fatal(err)
		}
		n.start(t, of)
		n.agree(t, payments)
	}
}
