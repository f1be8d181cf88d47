package notifier

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"payledger/eventstore"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// atRest is a relay at rest that has published a book of so many events to EVENTS.
func atRest(tb testing.TB, events int) (*bustest.Book, *Relay, jetstream.Stream) {
	tb.Helper()
	b := bustest.NewBook(tb)
	for range events {
		b.Create(tb, time.Hour)
	}
	c := bustest.ConnectTo(tb, bustest.StartServer(tb, embedded.Config{}))
	r := NewRelay(RelayConfig{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop()})
	stop := healthtest.Run(tb, r.Run)
	bustest.SameAsLog(tb, c.JetStream(), b)
	stop()
	stream, from, err := r.open(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	r.copied.Store(uint64(from))
	return b, r, stream
}

// TestSweepRests: what was compared is compared again in the next pass, and the
// newest event belongs to it.
func TestSweepRests(t *testing.T) {
	t.Parallel()
	b, r, stream := atRest(t, sweepAtOnce+1)
	for i, want := range []eventstore.Position{sweepAtOnce, 0, 0} {
		if bad := r.sweepOn(t.Context(), stream); bad != "" || r.swept.upTo != want {
			t.Errorf("look %d: %q, compared up to %d", i, bad, r.swept.upTo)
		}
	}
	b.Create(t, time.Hour) // EVENTS does not hold it
	r.copied.Add(1)
	pass := func() string {
		r.swept.began = time.Time{}
		r.sweepOn(t.Context(), stream)
		return r.sweepOn(t.Context(), stream)
	}
	if bad := pass(); bad != fmt.Sprintf("its event %d is missing", b.Last(t)) {
		t.Errorf("found %q", bad)
	}
	r.config.Store = altered{b.Store}
	if bad := pass(); bad != "" || !r.swept.unclear {
		t.Errorf("EVENTS is given up for a log that was altered: %q", bad)
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
	r := NewRelay(RelayConfig{Conn: c, Store: b.Store, LogID: b.LogID, Log: zerolog.Nop()})
	r.times.Watch, r.times.Answer = time.Millisecond, 0
	stream, _, err := r.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.watch(healthtest.Within(t), stream, func() bool { return true }); err == nil || !strings.Contains(err.Error(), "no answer") {
		t.Errorf("%v", err)
	}
}

// BenchmarkCompare compares a piece of EVENTS with the log.
func BenchmarkCompare(b *testing.B) {
	_, r, stream := atRest(b, 4*sweepAtOnce)
	b.ReportAllocs()
	for b.Loop() {
		if bad, err := r.compareRange(b.Context(), stream, 100, 100+sweepAtOnce); len(bad) > 0 || err != nil {
			b.Fatal(bad, err)
		}
	}
}
