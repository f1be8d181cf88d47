package memory

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"payledger/eventstore"
	"payledger/eventstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	var begun sync.Map // by check: each is interrupted once
	storetest.Run(t, func(t testing.TB) storetest.Log {
		_, again := begun.LoadOrStore(t.Name(), true)
		return &underTest{interrupted: !again}
	})
}

// A store that breaks one of the rules must be noticed.
func TestBrokenStores(t *testing.T) {
	t.Parallel()
	for _, broken := range []struct {
		check string
		flaws flaws
		blind bool
	}{
		{"staged conflict", flaws{ignoreStaged: true}, false},
		{"staged claim", flaws{ignoreStaged: true}, false},
		{"staged permanent claim", flaws{ignoreStaged: true}, false},
		{"nothing early", flaws{earlyRefusals: true}, false},
		{"nothing early", flaws{earlyRecords: true}, false},
		{"faults", flaws{survivesFaults: true}, false},
		{"duplicate", flaws{forgetsIDs: true}, false},
		{"corruption", flaws{}, true},
	} {
		t.Run(fmt.Sprintf("%s %+v", broken.check, broken.flaws), func(t *testing.T) {
			t.Parallel()
			storetest.Fails(t, broken.check, func(testing.TB) storetest.Log { return &underTest{flaws: broken.flaws, blind: broken.blind} })
		})
	}
}

// underTest is a log in memory for the conformance suite.
type underTest struct {
	flaws       flaws
	blind       bool
	interrupted bool
	store       *Store
}

func (u *underTest) Open() eventstore.Store {
	if u.store == nil {
		u.store = New()
	} else {
		u.store = u.store.Reopen()
	}
	u.store.flaws, u.store.log.blind = u.flaws, u.blind
	return u.store
}

func (u *underTest) Verify(ctx context.Context, _ eventstore.Store) error { return u.store.Verify(ctx) }

func (u *underTest) Stall(eventstore.Store) (<-chan struct{}, func()) { return u.store.Stall() }

func (u *underTest) Waiting(eventstore.Store) int { return u.store.Waiting() }
func (u *underTest) Interrupted() bool            { return u.interrupted }

func (u *underTest) Shared() bool { return false }

func (u *underTest) Faults() []storetest.Fault {
	arm := func(f Fault) func(eventstore.Store) {
		return func(eventstore.Store) { u.store.FailNext(f) }
	}
	return []storetest.Fault{
		{Name: "the write is lost", Arm: arm(Fault{})},
		{Name: "the write is kept", Persisted: true, Arm: arm(Fault{Persisted: true})},
	}
}

func (u *underTest) Size(eventstore.Position) int { return 1 }

func (u *underTest) Flip(p eventstore.Position, _ int) { u.store.Damage(p) }
