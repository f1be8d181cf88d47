package signals

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
)

// laid is a signal as it comes from SIGNALS.
func laid(sequence uint64, route string, payment byte) *signal {
	return &signal{
		sequence: sequence, route: route, project: bustest.Project, payment: domain.ID{payment}, body: make([]byte, 100),
	}
}

func TestLanesLeaveOutWhatIsInHand(t *testing.T) {
	t.Parallel()
	l := newSignalQueues()
	if l.take(laid(7, "a", 1)) != queued || l.take(laid(7, "a", 1)) != repeated || l.count() != 1 {
		t.Errorf("%d in hand", l.count())
	}
}

// TestRoutesTakeTurns: what came through one route first and in thousands does
// not keep another's from the next batch.
func TestRoutesTakeTurns(t *testing.T) {
	t.Parallel()
	l := newSignalQueues()
	for i := range uint64(5000) {
		l.take(laid(i, "flooded", byte(i)))
	}
	l.take(laid(6000, "other", 1))
	if !slices.ContainsFunc(l.next(t.Context(), nil, 4), func(s *signal) bool { return s.route == "other" }) {
		t.Error("another route waits for the flood")
	}
}

// TestRoutesTakeTurnsOnAPayment: the flood of a wrong route keeps the right one's
// signal waiting for one turn.
func TestRoutesTakeTurnsOnAPayment(t *testing.T) {
	t.Parallel()
	l := newSignalQueues()
	for i := range uint64(2000) {
		l.take(laid(i, "wrong", 1))
	}
	l.take(laid(6000, "right", 1))
	for turn := range 3 {
		got := l.next(t.Context(), nil, 256)
		if len(got) != 1 {
			t.Fatalf("%d signals of one payment are judged at a time", len(got))
		}
		l.dequeue(got[0])
		l.finish(got[0])
		if got[0].route == "right" {
			return
		}
		if turn == 2 {
			t.Fatal("the right route waits for the flood")
		}
	}
}

// TestLanesKeepOrderAndLoseNothing whatever becomes of the signals they hand
// out.
func TestLanesKeepOrderAndLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := newSignalQueues()
		last := map[string]uint64{}
		finished, total := 0, rapid.IntRange(1, 60).Draw(t, "signals")
		finish := func(s *signal) {
			key := fmt.Sprint(s.route, s.payment)
			if s.sequence <= last[key] {
				t.Fatalf("%s: %d after %d", key, s.sequence, last[key])
			}
			last[key] = s.sequence
			finished++
		}
		for n := 0; finished < total; {
			for more := rapid.IntRange(0, 10).Draw(t, "come"); n < total && (more > 0 || n == finished); more-- {
				n++
				l.take(laid(uint64(n), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "route"), rapid.ByteRange(1, 3).Draw(t, "payment")))
			}
			got := l.next(context.Background(), nil, rapid.IntRange(1, 4).Draw(t, "at once"))
			seen := map[domain.ID]bool{}
			for _, s := range got {
				if seen[s.payment] {
					t.Fatal("two signals of one payment at a time")
				}
				seen[s.payment] = true
				switch rapid.SampledFrom([]string{"done", "done", "again", "later", "following"}).Draw(t, "then") {
				case "done":
					l.dequeue(s)
					finish(s)
					l.finish(s)
				case "again":
					l.requeue(s)
				case "later":
					l.delay(s, time.Microsecond)
				case "following":
					for s != nil {
						next := l.dequeueNext(s)
						finish(s)
						l.finish(s)
						s = next
					}
				}
			}
		}
		if l.count() != 0 || len(l.routes) != 0 || len(l.payments) != 0 || l.size != 0 {
			t.Fatalf("left: %d in hand, %d routes, %d payments, %d bytes", l.count(), len(l.routes), len(l.payments), l.size)
		}
	})
}

// TestAFullHandShedsTheFloodAlone.
func TestAFullHandShedsTheFloodAlone(t *testing.T) {
	t.Parallel()
	l := newSignalQueues()
	var n uint64
	come := func(route string) arrived {
		n++
		return l.take(laid(n, route, byte(n)))
	}
	come("small")
	for range 2 * maxInflight {
		come("flood")
	}
	if held := l.count(); held < maxInflight || held > maxInflight+1 {
		t.Errorf("%d in hand", held)
	}
	if come("flood") != tooMany || come("small") != queued || come("another") != queued {
		t.Error("not the flood is shed")
	}
	// A flood through many routes ends too.
	for i := range 2 * maxInflight {
		come(fmt.Sprint(i))
	}
	if held := l.count(); held > maxInflight*3/2 {
		t.Errorf("%d in hand", held)
	}
}

// TestManyBytesAreShedToo: few signals with large bodies.
func TestManyBytesAreShedToo(t *testing.T) {
	t.Parallel()
	l := newSignalQueues()
	for i := range uint64(2 * maxInflightBytes / maxParkedBody) {
		s := laid(i, "flood", byte(i))
		s.body = make([]byte, maxParkedBody)
		l.take(s)
	}
	if l.size < maxInflightBytes || l.size > maxInflightBytes+maxParkedBody {
		t.Errorf("%d bytes in hand", l.size)
	}
	if l.take(laid(1<<40, "another", 1)) != queued {
		t.Error("not the flood is shed")
	}
}

// TestOfAMessageLittleIsKept: neither its header, nor a body that says little in
// many bytes, nor the rest of one that says nothing.
func TestOfAMessageLittleIsKept(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Large": {strings.Repeat("x", 10_000)}}
	subject := bus.SignalSubject("bank", bustest.Project, domain.ID{1})
	says := domain.Signal{Route: "bank", Outcome: domain.OutcomeFailed, Reference: "r", Amount: 100, Currency: "RUB"}
	whole := bustest.Encode(t, says)
	for name, of := range map[string]struct {
		body, kept []byte
		cut        int
		malformed  bool
	}{
		"a signal":       {whole, whole, 0, false},
		"a long signal":  {append(bytes.Repeat([]byte(" "), 10_000), whole...), whole, 0, false},
		"no signal":      {[]byte("body"), []byte("body"), 0, true},
		"no long signal": {make([]byte, 10_000), make([]byte, maxParkedBody), 10_000, true},
	} {
		s := newSignal(subject, 1, time.Now(), of.body, header)
		if !bytes.Equal(s.body, of.kept) || s.cut != of.cut || (s.malformed != nil) != of.malformed || !of.malformed && s.says != says {
			t.Errorf("%s: %q, cut %d, %v", name, s.body, s.cut, s.malformed)
		}
		if &s.body[0] == &of.body[0] {
			t.Errorf("%s: the message's memory is kept", name)
		}
	}
}
