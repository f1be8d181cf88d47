package fanout

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/delivery"
	"payledger/notifier/health/healthtest"
	"payledger/notifier/notifiertest"
)

// TestSlowLanes: while the lanes take nothing, no more than a little is kept in memory,
// EVENTS grows, and nothing is lost by it.
func TestSlowLanes(t *testing.T) {
	t.Parallel()
	s, lanes, metrics := newShop(t), &lanesDouble{gate: make(chan struct{})}, prometheus.NewRegistry()
	s.endpoint(t, "we_all", domain.Kinds()...)
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	f := New(Config{
		Conn: c, LogID: s.LogID, Ledger: s.Ledger, Lanes: lanes, Endpoints: s.views, Times: bustest.QuickReader(), Log: healthtest.Log(t), Metrics: metrics,
	})
	f.taken = make(chan delivery.Event, 50)
	stop := healthtest.Run(t, f.Run)
	s.Create(t, time.Hour)
	healthtest.Eventually(t, "the lanes have a batch", lanes.waits.Load)
	for range 200 {
		s.Create(t, time.Hour)
	}
	bustest.SameAsLog(t, c.JetStream(), s.Book)
	healthtest.Eventually(t, "the reader waits", func() bool {
		_, _, waiting := f.Reader().Progress()
		return waiting && len(f.taken) == 50
	})
	if lag := healthtest.Measured(t, metrics, "payledger_fanout_lag_events"); lag < 200 {
		t.Errorf("lag %v", lag)
	}
	if err := f.Err(); err != nil {
		t.Error(err)
	}
	close(lanes.gate)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	if n := consumers(t, c); n != 1 {
		t.Errorf("%d consumers", n)
	}
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}

func consumers(t *testing.T, c *bus.Conn) (n int) {
	t.Helper()
	stream, err := c.JetStream().Stream(t.Context(), bus.EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if name != bus.SubscriberConsumer {
			n++
		}
	}
	return n
}

func TestLanesThatFailGetAllOnce(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{false, true} {
		t.Run(fmt.Sprintf("kept=%t", kept), func(t *testing.T) {
			t.Parallel()
			s, metrics := newShop(t), prometheus.NewRegistry()
			full := errors.New("disk full")
			lanes := &lanesDouble{fails: slices.Repeat([]error{full}, 40), keepsOne: kept, gate: make(chan struct{})}
			s.endpoint(t, "we_all", domain.Kinds()...)
			c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
			healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
			w, stop := s.serve(t, c, lanes, metrics)
			s.paid(t)
			close(lanes.gate)
			if !kept {
				healthtest.Eventually(t, "the trouble is reported", func() bool { return healthtest.Measured(t, metrics, "payledger_fanout_up") == 0 })
			}
			for range 20 {
				s.paid(t)
			}
			healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
			healthtest.Eventually(t, "it is well", func() bool { return w.trouble.Err() == nil })
			stop()
			lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
		})
	}
}

// TestCopyOfAnotherLogIsNotRead: EVENTS holds a log with the same id and other
// events, and the relay has not looked at it yet.
func TestCopyOfAnotherLogIsNotRead(t *testing.T) {
	t.Parallel()
	s, other, lanes := newShop(t), bustest.NewBook(t), &lanesDouble{}
	other.LogID = s.LogID
	for range 60 {
		other.Create(t, time.Hour) // of which the endpoint wants to hear nothing
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	notifiertest.CopyOnce(t, c, other)
	c = bustest.ConnectTo(t, c.Server())
	s.endpoint(t, "we_1")
	for range 20 {
		s.paid(t)
	}
	w, stop := s.serve(t, c, lanes, nil)
	healthtest.Eventually(t, "it waits for the relay", func() bool { return errors.Is(w.Err(), bus.ErrUnchecked) })
	healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_1", domain.FinalKinds()...)))
}

// TestForgedEventsAreNotHandedOn: somebody who may write to an external server
// puts an event into EVENTS where the log has another one.
func TestForgedEventsAreNotHandedOn(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	s.endpoint(t, "we_all", domain.Kinds()...)
	c := bustest.External(t)
	stopRelay := healthtest.Run(t, notifiertest.Relay(c, s.Book).Run)
	w, stop := s.serve(t, c, lanes, nil)
	id := s.Routed(t).ID
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	bustest.SameAsLog(t, c.JetStream(), s.Book) // the fan-out may have read the log itself
	stopRelay()
	p := s.Payment(t, id)
	s.Do(t, id, domain.ApplySignal{Signal: bustest.Paid(p)})
	forged, err := bus.EventMessage(s.LogID, eventstore.Stored{
		Position: s.Last(t), Stream: eventstore.PaymentStream(bustest.Project, id), Sequence: 3, Commit: s.IDs.Next(),
		Body: []byte(`{"type":"payment.failed"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().PublishMsg(t.Context(), forged, jetstream.WithExpectStream(bus.EventsStream)); err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "it is noticed", func() bool { return errors.As(w.Err(), new(*bus.StrayError)) })
	relay := notifiertest.Relay(c, s.Book)
	healthtest.Run(t, relay.Run)
	healthtest.Eventually(t, "the relay refuses the copy", func() bool { return errors.As(relay.Err(), new(*bus.ForeignStreamError)) })
	if err := c.JetStream().DeleteStream(t.Context(), bus.EventsStream); err != nil {
		t.Fatal(err)
	}
	s.paid(t)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}

// damaged is a store with a record that cannot be read.
type damaged struct {
	eventstore.Store
	at eventstore.Position
}

// Scan implements eventstore.Store.
func (d damaged) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for r, err := range d.Store.Scan(ctx, after, f) {
			if err == nil && r.Position == d.at {
				yield(eventstore.Stored{}, &eventstore.CorruptError{Position: d.at, Reason: "damaged"})
				return
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestADamagedRecord: what EVENTS holds is enqueued although the log cannot be read there.
func TestADamagedRecord(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	s.endpoint(t, "we_all", domain.Kinds()...)
	for range 5 {
		s.paid(t)
	}
	c := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	notifiertest.CopyOnce(t, c, s.Book)
	good := s.Store
	s.Store = damaged{good, s.added["we_all"] + 4}
	_, stop := s.serve(t, c, lanes, nil)
	healthtest.Eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.Last(t) })
	stop()
	s.Store = good
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}
