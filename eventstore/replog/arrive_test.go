package replog

import (
	"context"
	"errors"
	"testing"
	"time"

	"payledger/eventstore"
)

// An answer is confirmed by a barrier or by a commit since the arrival, as long as the node
// leads.
func TestConfirm(t *testing.T) {
	t.Parallel()
	x := startThree(t, 0)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	leader := x.leader()
	s, follower := x.stores[leader], x.stores[(leader+1)%3]
	groups := func() uint64 { return s.Status().Message }

	before := groups()
	a := s.Arrive(false)
	if _, err := eventstore.AppendOne(ctx, s, paymentCommit(1, 0)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(a(ctx), a(ctx)); err != nil {
		t.Error(err)
	}
	if n := groups() - before; n != 1 {
		t.Errorf("a commit of its own and its confirmation took %d groups", n)
	}
	before = groups()
	for _, read := range []bool{true, false} {
		if err := s.Arrive(read)(ctx); err != nil {
			t.Error(err)
		}
	}
	if n := groups() - before; n != 2 {
		t.Errorf("two reads took %d groups", n)
	}
	if err := follower.Barrier(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower confirms: %v", err)
	}
	if _, err := eventstore.AppendOne(ctx, follower, paymentCommit(2, 0)); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a follower appends: %v", err)
	}

	// What arrived in an earlier term is not confirmed in a later one.
	late := s.Arrive(false)
	x.until("another node leads", func() bool { return s.Yield(ctx, "") == nil })
	if err := late(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a node that leads no more confirms: %v", err)
	}
	unready, last := make(chan func(context.Context) error, 1), s.Arrive(false)
	go func() {
		for here := false; !here && ctx.Err() == nil; <-time.After(100 * time.Microsecond) {
			arrival := s.Arrive(false)
			if _, here = s.Leader(); !here {
				last = arrival
			}
		}
		unready <- last
	}()
	x.until("the first one leads again", func() bool {
		_ = x.stores[x.leader()].Yield(ctx, s.config.Name)
		return s.Status().Ready
	})
	if err := late(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("a later term confirms: %v", err)
	}
	if err := (<-unready)(ctx); !errors.Is(err, ErrNotLeader) {
		t.Errorf("what arrived before the node was ready is confirmed: %v", err)
	}
	over, end := context.WithCancel(ctx)
	end()
	if err := s.Arrive(false)(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
