package cluster

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/cluster/founding"
)

// TestLOGAnew: LOG is deleted while the nodes run, is made anew, and has all that was
// answered. In the long form the same after the servers have lost all that they had, by two
// nodes at a time, although one of the files is behind.
func TestLOGAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("for the race detector there are other tests of three nodes")
	}
	t.Parallel()
	a := &anew{three: startThree(t)}
	a.sequencer()
	a.write(20, 0, 1, 2)
	a.refused(a.rebase(0, patienceOfTests), "the NATS servers have LOG, and it is left as it is")
	if long() {
		a.loseServers()
	}
	if err := a.stores[0].js.DeleteStream(t.Context(), StreamName); err != nil {
		t.Fatal(err)
	}
	if err := a.rebase(2, patienceOfTests); err != nil {
		t.Fatal(err)
	}
	a.write(20, 0, 1, 2)
	for i, s := range a.stores {
		all := recordsOf(t, s)
		for n := range a.number {
			if !slices.ContainsFunc(all, func(r eventstore.Stored) bool { return r.Commit == paymentCommit(n, 0).ID }) {
				t.Errorf("node %s does not have commit %d", names[i], n)
			}
		}
		if len(all) != a.number {
			t.Errorf("node %s has %d records, want %d", names[i], len(all), a.number)
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// anew is three nodes whose LOG is made anew.
type anew struct {
	*three
	number int // of commits
}

// write makes n commits, in turns at the nodes that are up.
func (a *anew) write(n int, up ...int) {
	a.t.Helper()
	for i := range n {
		if _, err := appended(a.t.Context(), a.stores[up[i%len(up)]], paymentCommit(a.number, 0)); err != nil {
			a.t.Fatalf("commit %d: %v", a.number, err)
		}
		a.number++
	}
}

func (a *anew) rebase(node int, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	_, err := Rebase(ctx, a.conns[node], domain.ID{9}, names)
	return err
}

func (a *anew) refused(err error, want string) {
	a.t.Helper()
	if !errors.As(err, new(*founding.RefusalError)) || !strings.Contains(err.Error(), want) {
		a.t.Errorf("it says %v, want %s", err, want)
	}
}

// loseServers removes all that the servers have, and makes LOG anew by two nodes at a time.
func (a *anew) loseServers() {
	a.stop(2)
	a.sequencer()
	a.write(300, 0, 1) // more than are fetched at a time
	for i := range names {
		a.stop(i)
		if err := os.RemoveAll(a.options[i].StoreDir); err != nil {
			a.t.Fatal(err)
		}
	}

	for i := range names {
		a.serve(i)
	}
	var opening sync.WaitGroup
	for i := range names[:2] {
		opening.Go(func() { a.open(i) })
	}
	a.until("the servers answer", func() bool {
		js, err := jetstream.New(a.conns[0])
		return err == nil && founding.Vacant(a.t.Context(), js) == nil
	})
	a.refused(a.rebase(0, 4*time.Second), "node C: LOG would go on without")
	opening.Go(func() { a.open(2) })
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { errs[i] = a.rebase(i, patienceOfTests) })
	}
	both.Wait()
	if errs[0] != nil && errs[1] != nil {
		a.t.Fatalf("LOG is not made anew: %v", errs)
	}
	opening.Wait()
	a.sequencer()
	a.write(20, 0, 1, 2)
}
