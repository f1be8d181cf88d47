package relay

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/eventstore"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// TestSweepRests: what was compared is compared again in the next pass, and the
// newest event belongs to it.
func TestSweepRests(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	for range sweepAtOnce + 1 {
		b.Create(t, time.Hour)
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	r := New(Config{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop()})
	stop := healthtest.Run(t, r.Run)
	bustest.SameAsLog(t, c.JetStream(), b)
	stop()
	stream, from, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.copied.Store(uint64(from))
	for i, want := range []eventstore.Position{sweepAtOnce, 0, 0} {
		if bad := r.sweepOn(t.Context(), stream); len(bad) > 0 || r.swept.upTo != want {
			t.Errorf("look %d: %v, compared up to %d", i, bad, r.swept.upTo)
		}
	}
	b.Create(t, time.Hour) // EVENTS does not hold it
	r.copied.Add(1)
	pass := func() []mismatch {
		r.swept.began = time.Time{}
		r.sweepOn(t.Context(), stream)
		return r.sweepOn(t.Context(), stream)
	}
	if bad := pass(); len(bad) != 1 || bad[0].at != b.Last(t) {
		t.Errorf("found %v", bad)
	}
	r.config.Store = altered{b.Store}
	if bad := pass(); len(bad) > 0 || !r.swept.unclear {
		t.Errorf("EVENTS is given up for a log that was altered: %v", bad)
	}
}

// altered is a log of which one record was altered.
type altered struct{ eventstore.Store }

func (a altered) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range a.Store.Scan(ctx, after, f) {
			if r.Position == 7 {
				r.Body = []byte("{}")
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func TestRelayDoesNotWaitForAnAnswerForEver(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	b.Routed(t)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	r := New(Config{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop()})
	r.times.Watch, r.times.Answer = time.Millisecond, 0
	stream, _, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.watch(healthtest.Within(t), stream, func() bool { return true }); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
}
