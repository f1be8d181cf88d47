package notifier

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/eventstore"
)

// TestSlowLanesHoldNobodyUp: while the lanes take nothing, payments get their
// routes, and no more than a little is kept in memory. Nothing is lost by it.
func TestSlowLanesHoldNobodyUp(t *testing.T) {
	t.Parallel()
	s, lanes, metrics := newShop(t), &lanesDouble{gate: make(chan struct{})}, prometheus.NewRegistry()
	s.endpoint(t, "we_all", domain.Kinds()...)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, s.book).Run)
	w, stop := s.serve(t, c, lanes, metrics)
	w.fanOut.mu.Lock()
	w.fanOut.most = 50
	w.fanOut.mu.Unlock()
	most := 0
	for range 200 {
		s.create(t, time.Hour)
		w.fanOut.mu.Lock()
		most = max(most, len(w.fanOut.ahead))
		w.fanOut.mu.Unlock()
	}
	allRouted(t, s.book)
	sameAsLog(t, c.JetStream(), s.book)
	if lag := measured(t, metrics, "payledger_fanout_lag_events"); lag < 300 || most > 50 {
		t.Errorf("lag %v, %d events in memory", lag, most)
	}
	if n := measured(t, metrics, "payledger_fanout_fallbacks_total"); n != 1 {
		t.Errorf("fell back %v times", n)
	}
	close(lanes.gate)
	eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
	eventually(t, "the dispatcher hands on again", func() bool {
		w.fanOut.mu.Lock()
		defer w.fanOut.mu.Unlock()
		return w.fanOut.attached
	})
	for range 10 {
		s.paid(t)
	}
	eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
	if n := consumers(t, c); n != 1 {
		t.Errorf("%d consumers", n)
	}
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}

func consumers(t *testing.T, c *Conn) (n int) {
	t.Helper()
	stream, err := c.JetStream().Stream(t.Context(), EventsStream)
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if name != SubscriberConsumer {
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
			c := connectTo(t, startServer(t, ServerConfig{}))
			run(t, newRelay(c, s.book).Run)
			w, stop := s.serve(t, c, lanes, metrics)
			s.paid(t)
			close(lanes.gate)
			if !kept {
				eventually(t, "the trouble is told", func() bool { return measured(t, metrics, "payledger_fanout_up") == 0 })
			}
			for range 20 {
				s.paid(t)
			}
			eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
			eventually(t, "it is well", func() bool { return w.fanOut.trouble.Err() == nil })
			stop()
			lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
		})
	}
}

// TestTheDispatcherBeginsEarlier: what the router needs again, the fan-out has
// dealt with.
func TestTheDispatcherBeginsEarlier(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	s.endpoint(t, "we_all", domain.Kinds()...)
	c := connectTo(t, startServer(t, ServerConfig{}))
	run(t, newRelay(c, s.book).Run)
	for range 3 {
		_, stop := s.serveFrom(t, c, lanes, fromTheFirst{}, nil)
		for range 20 {
			s.paid(t)
		}
		eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
		stop()
	}
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}

type fromTheFirst struct{}

func (fromTheFirst) OldestUnrouted(context.Context) (eventstore.Position, bool, error) {
	return 1, true, nil
}

// TestCopyOfAnotherLogIsNotRead: EVENTS holds a log that once was this one and
// went on differently, before the relay has looked at it.
func TestCopyOfAnotherLogIsNotRead(t *testing.T) {
	t.Parallel()
	s, other, lanes := newShop(t), newBook(t), &lanesDouble{}
	other.logID = s.logID
	for range 60 {
		other.create(t, time.Hour) // of which the endpoint wants to hear nothing
	}
	c := connectTo(t, startServer(t, ServerConfig{}))
	copyOnce(t, c, other)
	c = connectTo(t, c.server)
	s.endpoint(t, "we_1")
	for range 20 {
		s.paid(t)
	}
	w, stop := s.serve(t, c, lanes, nil)
	eventually(t, "it waits for the relay", func() bool { return errors.Is(w.Err(), errUnchecked) })
	run(t, newRelay(c, s.book).Run)
	eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_1", domain.FinalKinds()...)))
}

// TestForgedEventsAreNotEnqueued: somebody who may write to the server puts an
// event into EVENTS where the log has another one.
func TestForgedEventsAreNotEnqueued(t *testing.T) {
	t.Parallel()
	s, lanes := newShop(t), &lanesDouble{}
	s.endpoint(t, "we_all", domain.Kinds()...)
	c := connectTo(t, startServer(t, ServerConfig{}))
	stopRelay := run(t, newRelay(c, s.book).Run)
	w, stop := s.serve(t, c, lanes, nil)
	id := s.routed(t).ID
	eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
	stopRelay()
	p := s.payment(t, id)
	s.do(t, id, domain.ApplySignal{Signal: paid(p)})
	forged, err := eventMessage(s.logID, eventstore.Stored{
		Position: s.last(t), Stream: eventstore.PaymentStream(testProject, id), Sequence: 3, Commit: s.ids.Next(),
		Body: []byte(`{"type":"payment.failed"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := connectAs(t, c.server, userRelay).JetStream().PublishMsg(t.Context(), &nats.Msg{Subject: forged.Subject, Header: forged.Header, Data: forged.Data}, jetstream.WithExpectStream(EventsStream)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is noticed", func() bool { return errors.As(w.fanOut.trouble.Err(), new(*strayError)) })
	run(t, newRelay(c, s.book).Run)
	s.paid(t)
	eventually(t, "all is enqueued", func() bool { return lanes.reached() == s.last(t) })
	stop()
	lanes.check(t, s.wanted(t, s.listener("we_all", domain.Kinds()...)))
}
