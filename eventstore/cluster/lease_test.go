package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/eventstore/cluster/founding"
)

// On foreign servers a node that stops, or whose file differs from LOG, loses the lease
// to another one. A LOG that has vanished is not taken for a new one.
func TestLease(t *testing.T) {
	t.Parallel()
	x := startThreeOn(t, true)
	first := x.sequencer()
	rest := []*Store{x.stores[(first+1)%3], x.stores[(first+2)%3]}
	if _, err := appended(t.Context(), rest[0], paymentCommit(1, 0)); err != nil {
		t.Fatal(err)
	}
	x.stores[first].Stop(errors.New("this is a test"))
	x.until("another node is the sequencer", func() bool { return rest[0].Status().Ready || rest[1].Status().Ready })
	if _, err := appended(t.Context(), rest[0], paymentCommit(2, 0)); err != nil {
		t.Error(err)
	}
	x.until("three nodes are up", func() bool { return rest[0].Live() == 3 })

	if err := x.stores[first].Close(); err != nil {
		t.Error(err)
	}
	x.stores[first] = nil
	starting := &Store{Store: rest[0].Store, js: &forgetful{rest[0].js, 5}, report: rest[0].report, now: time.Now}
	if _, err := starting.findLOG(t.Context(), Config{Foreign: true}); err != nil {
		t.Errorf("the servers do not know LOG at first: %v", err)
	}
	x.until("two nodes are up", func() bool { return rest[0].Live() == 2 })
	if err := x.stores[(first+1)%3].js.DeleteStream(t.Context(), StreamName); err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{(first + 1) % 3, (first + 2) % 3} { // with them it would wait for LOG to be made anew
		if err := x.stores[i].Close(); err != nil {
			t.Error(err)
		}
		x.stores[i] = nil
	}
	if err := x.tryOpen(first); !errors.Is(err, founding.ErrForeign) {
		t.Errorf("without LOG a node starts: %v", err)
	}
}

// forgetful servers do not know their streams for some questions.
type forgetful struct {
	jetstream.JetStream
	times int
}

func (f *forgetful) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	if f.times--; f.times >= 0 {
		return nil, jetstream.ErrStreamNotFound
	}
	return f.JetStream.Stream(ctx, name)
}

// Nodes that all cannot record, because their disks are full, still have a sequencer on
// foreign servers: the reads need one.
func TestLeaseOfNodesThatAreFull(t *testing.T) {
	t.Parallel()
	x := startThreeOn(t, true)
	if _, err := appended(t.Context(), x.stores[x.sequencer()], paymentCommit(1, 0)); err != nil {
		t.Fatal(err)
	}
	for i, s := range x.stores {
		x.until("node "+names[i]+" has the commit", func() bool {
			last, err := lastOf(t.Context(), s)
			return err == nil && last == 1
		})
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		x.minFree[i] = 1 << 62
		x.open(i)
	}
	for i, s := range x.stores {
		x.until("node "+names[i]+" is full", func() bool { return s.Status().Unable != "" })
	}
	x.stores[x.sequencer()].stepDown("")
	for i, s := range x.stores {
		x.until("node "+names[i]+" reads", func() bool {
			last, err := lastOf(t.Context(), s)
			return err == nil && last == 1
		})
	}
}
