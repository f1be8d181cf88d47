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

// TestLOGAnew: after the servers have lost all that they had, the nodes wait. LOG is made
// anew, by two of them at a time, and has all that was answered, although one of the files is
// behind. The same while the nodes run.
func TestLOGAnew(t *testing.T) {
	if testing.Short() {
		t.Skip("for the race detector there are other tests of three nodes")
	}
	t.Parallel()
	if long() {
		onBoth(t, logAnew)
		return
	}
	logAnew(t, startThreeOn(t, false))
}

func logAnew(t *testing.T, x *three) {
	ctx := t.Context()
	number := 0
	write := func(n int, up ...int) {
		t.Helper()
		for i := range n {
			if _, err := appended(ctx, x.stores[up[i%len(up)]], paymentCommit(number, 0)); err != nil {
				t.Fatalf("commit %d: %v", number, err)
			}
			number++
		}
	}
	rebase := func(i int, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		_, err := Rebase(ctx, x.conns[i], domain.ID{9}, names)
		return err
	}
	refused := func(err error, want string) {
		t.Helper()
		if !errors.As(err, new(*founding.RefusalError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("it says %v, want %s", err, want)
		}
	}
	x.sequencer()
	write(20, 0, 1, 2)
	refused(rebase(0, patienceOfTests), "the NATS servers have LOG, and it is left as it is")
	x.stop(2)
	x.sequencer()
	write(300, 0, 1) // more than are fetched at a time
	for i := range names {
		x.stop(i)
		if err := os.RemoveAll(x.options[i].StoreDir); err != nil {
			t.Fatal(err)
		}
	}

	for i := range names {
		x.serve(i)
	}
	var opening sync.WaitGroup
	for i := range names[:2] {
		opening.Go(func() { x.open(i) })
	}
	x.until("the servers answer", func() bool {
		js, err := jetstream.New(x.conns[0])
		return err == nil && founding.Vacant(ctx, js) == nil
	})
	refused(rebase(0, 4*time.Second), "node C: LOG would go on without")
	opening.Go(func() { x.open(2) })
	errs := make([]error, 2)
	var both sync.WaitGroup
	for i := range errs {
		both.Go(func() { errs[i] = rebase(i, patienceOfTests) })
	}
	both.Wait()
	if errs[0] != nil && errs[1] != nil {
		t.Fatalf("LOG is not made anew: %v", errs)
	}
	opening.Wait()
	x.sequencer()
	write(20, 0, 1, 2)

	if err := x.stores[0].js.DeleteStream(ctx, StreamName); err != nil {
		t.Fatal(err)
	}
	if err := rebase(2, patienceOfTests); err != nil {
		t.Fatal(err)
	}
	write(20, 0, 1, 2)
	for i, s := range x.stores {
		all := recordsOf(t, s)
		for n := range number {
			if !slices.ContainsFunc(all, func(r eventstore.Stored) bool { return r.Commit == paymentCommit(n, 0).ID }) {
				t.Errorf("node %s does not have commit %d", names[i], n)
			}
		}
		if len(all) != number {
			t.Errorf("node %s has %d records, want %d", names[i], len(all), number)
		}
		if err := s.Verify(ctx); err != nil {
			t.Error(err)
		}
	}
}
