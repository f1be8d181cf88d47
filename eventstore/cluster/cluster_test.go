package cluster

import (
	"errors"
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/forms"
	"payledger/eventstore/cluster/wire"
)

// seeds is how many seeds are played: PAYLEDGER_SEED plays one.
func seeds(t *testing.T) (from, to uint64) {
	if one, err := strconv.ParseUint(os.Getenv("PAYLEDGER_SEED"), 10, 64); err == nil {
		return one, one + 1
	}
	if long() {
		return 0, 2_000
	}
	return 0, 200
}

// Whatever goes wrong: nothing acknowledged is lost, nothing is there twice, all
// nodes have the same records at the same positions, and no read and no refusal is
// older than what was acknowledged before it was asked for.
func TestSimulation(t *testing.T) {
	t.Parallel()
	from, to := seeds(t)
	total := newWorld(0, flaw{}).done
	for seed := from; seed < to; seed++ {
		w := newWorld(seed, flaw{})
		w.run(20 * time.Second)
		if w.wrong != "" {
			t.Fatalf("PAYLEDGER_SEED=%d: %s", seed, w.wrong)
		}
		total.ok += w.done.ok
		total.conflicts += w.done.conflicts
		total.unknown += w.done.unknown
		total.reads += w.done.reads
		total.refusedReads += w.done.refusedReads
		total.takeovers += w.done.takeovers
		total.forgotten += w.done.forgotten
		total.fetched += w.done.fetched
		total.strayed += w.done.strayed
		total.stopped += w.done.stopped
		total.restored += w.done.restored
		total.told += w.done.told
	}
	t.Logf("%+v", total)
	if to-from > 1 && (total.ok < 1000 || total.conflicts == 0 || total.reads < 1000 || total.forgotten == 0 || total.fetched == 0 || total.stopped == 0 || total.strayed == 0 || total.restored == 0 || total.told < 1000) {
		t.Errorf("too little happened: %+v", total)
	}
}

// While nothing goes wrong, every read is answered and every command is decided, and
// LOG's leader stays, also when each message and each sync is slow.
func TestQuiet(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		w := newWorld(seed, flaw{})
		w.quiet, w.lag = true, time.Duration(seed%2)*150*time.Millisecond
		w.run(20 * time.Second)
		if d := w.done; w.wrong != "" || d.refusedReads > 0 || d.unknown > 0 || d.takeovers != 2 || d.reads < 5 || d.ok < 5 {
			t.Errorf("seed %d: %+v %s", seed, d, w.wrong)
		}
	}
}

// Each rule is needed: without it a promise is broken within some hundred seeds.
func TestFlaws(t *testing.T) {
	if !long() {
		t.Skip("it simulates thousands of lives: run with PAYLEDGER_LONG=1")
	}
	t.Parallel()
	for what, f := range map[string]flaw{
		"a failed publication taken for a refusal":   {refusedByError: true},
		"chained publications":                       {chained: true},
		"reads without a barrier":                    {noBarrier: true},
		"a barrier that serves later reads":          {lateRiders: true},
		"refusals from a stale file":                 {staleRefusals: true},
		"ids recognised only at the end of a stream": {endOnly: true},
		"two groups in flight":                       {twoInFlight: true},
		"a longer file that LOG went on without":     {unlooked: true},
		"a peer's groups taken for LOG's":            {peersAsLOG: true},
		"a peer's number taken for LOG's":            {claimsAsLOG: true},
		"one peer asked alone":                       {onePeer: true},
		"an answer to an older question":             {oldAnswers: true},
		"an answer without what the file shows":      {bareNumber: true},
		"an answer from an old copy":                 {staleAnswer: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(1000) {
				w := newWorld(seed, f)
				w.run(20 * time.Second)
				if w.wrong != "" {
					t.Logf("seed %d: %s", seed, w.wrong)
					return
				}
			}
			t.Error("no seed shows it")
		})
	}
}

// A group that differs from the one that the file has in its place stops the node:
// what waits is refused, and so is all that comes.
func TestStop(t *testing.T) {
	t.Parallel()
	n := newNode("A", nil, [8]byte{1}, 5)
	for _, e := range []event{matched{}, leads{true}, sequencing{"A"}, status{"B", 1, 5}, calling{7}, reading{8}, asked{"A", 1}} {
		n.step(time.Second, e)
	}
	n.step(time.Second, accepted{n.sequencer.flight.group.Nonce, 6}) // the barrier
	n.step(time.Second, reading{9})
	own := &bolt.Group{First: 1}
	n.step(time.Second, staged{own})
	g := &bolt.Group{Number: 4}
	if got := n.step(time.Second, fed{g}); !reflect.DeepEqual(got, []effect{compare{g}}) {
		t.Fatalf("an old group leads to %v", got)
	}
	why := &bolt.MismatchError{Number: 4, Reason: "it is another one"}
	got := n.step(time.Second, mismatched{why})
	want := []effect{stop{why}, decide{}, serve{8, true}, serve{9, true}, giveUp{7}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it stops with %v, want %v", got, want)
	}
	for e, want := range map[event]effect{staged{own}: decide{}, reading{10}: serve{10, true}, calling{11}: giveUp{11}, leads{true}: stepDown{}, leads{false}: nil} {
		if got := n.step(time.Second, e); !reflect.DeepEqual(got, []effect{want}) && (want != nil || got != nil) {
			t.Errorf("stopped, %T leads to %v, want %v", e, got, want)
		}
	}
}

// What is not recognised is refused if it may have been forgotten, and if its id is
// ahead of the cluster's time.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const clock = 1_795_169_730_123
	s := &Store{now: func() time.Time { return time.UnixMilli(clock) }, forms: forms.New("a", forms.Program{}, nil)}
	at := func(millis int64) (id domain.ID) {
		if err := id.SetTime(uint64(clock + millis)); err != nil {
			t.Fatal(err)
		}
		return id
	}
	for _, c := range []struct {
		id, newest int64
		want       error
	}{
		{0, 0, nil},
		{-90_000, -60_001, nil},
		{-90_000, -60_000, nil},
		{-90_000, -59_999, eventstore.ErrUnconfirmed},
		{500, -1_000, nil},
		{501, -1_000, wire.ErrTooNew},
		{10_500, 10_000, nil},
		{10_501, 10_000, wire.ErrTooNew},
	} {
		if err := s.admit(&eventstore.Commit{ID: at(c.id)}, at(c.newest)); !errors.Is(err, c.want) {
			t.Errorf("an id %d ms from now, the newest %d ms: %v, want %v", c.id, c.newest, err, c.want)
		}
	}
}
