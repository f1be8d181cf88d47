package signals

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
)

// flood publishes so many signals on a payment, each under a reference of its
// own.
func (c *court) flood(t *testing.T, p domain.Payment, n int, change func(*domain.Signal)) {
	t.Helper()
	for i := range n {
		if err := c.conn.NATS().PublishMsg(floodSignal(t, p, i, change)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
}

// floodAll is flood, and sends again what SIGNALS refuses, as connectors do.
func (c *court) floodAll(t *testing.T, p domain.Payment, n int, change func(*domain.Signal)) {
	t.Helper()
	for i := range n {
		m := floodSignal(t, p, i, change)
		healthtest.Eventually(t, "SIGNALS takes it", func() bool {
			_, err := c.conn.JetStream().PublishMsg(t.Context(), m)
			return err == nil
		})
	}
}

func floodSignal(t *testing.T, p domain.Payment, i int, change func(*domain.Signal)) *nats.Msg {
	t.Helper()
	s := bustest.Paid(p)
	s.Reference = fmt.Sprint("flood-", p.ID, "-", i)
	change(&s)
	return &nats.Msg{
		Subject: bus.SignalSubject(s.Route, p.Project, p.ID), Data: bustest.Encode(t, s), Header: nats.Header{bus.ReplyHeader: {"_INBOX.nobody.reads"}},
	}
}

func wrongRoute(s *domain.Signal) { s.Route = "bank" }

func lateMoney(s *domain.Signal) { s.Amount-- }

// TestFloodsOfRefusalsAreCounted, also those before the consumers were recreated, and what is beyond
// the cap is answered.
func TestFloodsOfRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	const all = 2000
	c.floodAll(t, p, all*3/4, wrongRoute)
	c.drained(t)
	if err := c.conn.JetStream().DeleteConsumer(t.Context(), bus.SignalsStream, bus.RouteConsumer(domain.SandboxRoute)); err != nil {
		t.Fatal(err)
	}
	c.ready(t)
	c.floodAll(t, p, all/4, func(s *domain.Signal) {
		wrongRoute(s)
		s.Reference += "-again"
	})
	s := bustest.Paid(p)
	wrongRoute(&s)
	s.Reference = "one more"
	reply := c.signal(t, p, s)
	if reply.Result != domain.SignalRefused || reply.Reason != domain.ReasonWrongRoute || !reply.Unrecorded || reply.EventID != nil {
		t.Errorf("%+v", reply)
	}
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied || reply.Unrecorded {
		t.Errorf("%+v", reply)
	}
	c.drained(t)
	got := c.Payment(t, p.ID)
	if got.Status != domain.Paid || got.Refused != 1600 || len(got.Signals) != domain.MaxRefused+1 {
		t.Errorf("%s, %d refused, %d kept", got.Status, got.Refused, len(got.Signals))
	}
	if n := testutil.ToFloat64(c.enforcer.unrecorded); n != all+1-domain.MaxRefused-4 {
		t.Errorf("%v counted as not recorded", n)
	}
	if n := len(c.Records(t)); n != domain.MaxRefused+4+3 {
		t.Errorf("%d records in the log", n)
	}
}

// TestLateFundsBeyondTheCapAreRecordedOnce: a payment no longer keeps them, but
// their references are claimed.
func TestLateFundsBeyondTheCapAreRecordedOnce(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	const all = 3 * domain.MaxLateFunds
	c.floodAll(t, p, all, lateMoney)
	c.drained(t)
	c.floodAll(t, p, all, lateMoney)
	c.drained(t)
	if got := c.Payment(t, p.ID); got.LateFunds != all || len(got.Signals) != domain.MaxLateFunds {
		t.Errorf("%d of late funds, %d kept", got.LateFunds, len(got.Signals))
	}
	s := bustest.Paid(p)
	s.Amount -= 2
	s.Reference = fmt.Sprint("flood-", p.ID, "-", all-1)
	if reply := c.signal(t, p, s); reply.Result != domain.SignalRefused || reply.Reason != domain.ReasonReferenceConflict {
		t.Errorf("%+v", reply)
	}
}

// TestFoldsGoOnWhereTheyWere: the second look at a long stream reads what was
// added alone.
func TestFoldsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	p := b.Routed(t)
	s := &signal{project: p.Project, payment: p.ID}
	add := func(n int) {
		for range n {
			s := bustest.Paid(p)
			s.Amount--
			s.Reference = b.IDs.Next().String()
			b.Do(t, p.ID, domain.ApplySignal{Signal: s})
		}
	}
	r := New(Config{Ledger: b.Ledger}).newRoute(p.Route, nil)
	for _, n := range []int{1, 2 * minFoldRecords, 3, 0, 2 * domain.MaxLateFunds} {
		add(n)
		f, err := r.fold(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		want := b.Payment(t, p.ID)
		if f.LateFunds != want.LateFunds || f.Status != want.Status || len(f.Signals) != len(want.Signals) {
			t.Fatalf("%d of late funds, %d kept: want %d, %d", f.LateFunds, len(f.Signals), want.LateFunds, len(want.Signals))
		}
	}
	b.Routed(t)
	add(1)
	r.states[s.stream()].last.Position++ // another payment's record
	if _, err := r.fold(t.Context(), s); err == nil {
		t.Error("went on behind a record that is not the stream's")
	}
	if f, err := r.fold(t.Context(), s); err != nil || f.LateFunds != b.Payment(t, p.ID).LateFunds {
		t.Errorf("%d of late funds, %v", f.LateFunds, err)
	}
	// What is kept is bounded.
	for range maxStates {
		r.states[eventstore.PaymentStream(p.Project, b.IDs.Next())] = &cachedState{}
	}
	delete(r.states, s.stream())
	if _, err := r.fold(t.Context(), s); err != nil || len(r.states) > maxStates {
		t.Errorf("%d states are cached, %v", len(r.states), err)
	}
}

// TestFloodsDelayThemselvesAlone: floods of wrong routes on six payments, of no
// signals at all, and of a payment that has no route yet; then the outcome of
// another payment, and of a flooded one. How long that takes depends on the
// machine and is only logged.
func TestFloodsDelayThemselvesAlone(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	early := c.Payment(t, c.Create(t, time.Hour))
	c.flood(t, early, 500, func(*domain.Signal) {})
	flooded := make([]domain.Payment, 6)
	for i := range flooded {
		flooded[i] = c.Routed(t)
		c.flood(t, flooded[i], 2000, wrongRoute)
		c.flood(t, flooded[i], 500, lateMoney)
	}
	c.poison(t, 5000, 1000)
	other := c.Routed(t)
	began := time.Now()
	for _, p := range []domain.Payment{other, flooded[0]} {
		s := bustest.Paid(p)
		reply := c.signal(t, p, s)
		if reply.Result != domain.SignalApplied {
			t.Errorf("%+v", reply)
		}
		t.Logf("answered %v after the floods", time.Since(began))
	}
	c.Do(t, early.ID, domain.AssignRoute{Table: domain.SandboxTable()})
	c.drained(t)
}

// TestOnePaymentFillsOnlyItsShare: SIGNALS refuses more of it, and takes another's.
func TestOnePaymentFillsOnlyItsShare(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	early := c.Payment(t, c.Create(t, time.Hour))
	send := func(i int) error {
		_, err := c.conn.JetStream().PublishMsg(healthtest.Within(t), floodSignal(t, early, i, func(*domain.Signal) {}))
		return err
	}
	for i := range bus.MaxPaymentSignals {
		if err := send(i); err != nil {
			t.Fatal(err)
		}
	}
	var refused *jetstream.APIError
	if err := send(bus.MaxPaymentSignals); !errors.As(err, &refused) {
		t.Errorf("one more: %v", err)
	}
	p := c.Routed(t)
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied {
		t.Errorf("%+v", reply)
	}
	c.Do(t, early.ID, domain.AssignRoute{Table: domain.SandboxTable()})
	c.drained(t)
	if got := c.Payment(t, early.ID); len(got.Signals) != bus.MaxPaymentSignals {
		t.Errorf("%d are judged", len(got.Signals))
	}
}

// TestABacklogIsShed: a route with more signals waiting than there is room for, to be
// judged or to be tried again, loses some of its own.
func TestABacklogIsShed(t *testing.T) {
	t.Parallel()
	for name, parks := range map[string]bool{"to be judged": true, "to be parked": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &court{Book: bustest.NewBook(t), conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
			if !parks {
				if _, err := c.conn.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{bus.ParkedSubject}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := bus.OpenSignals(t.Context(), c.conn, c.LogID, testRoutes()); err != nil {
				t.Fatal(err)
			}
			const all = 3000
			c.enforcer = judging(t, c.conn, c.Book)
			var log healthtest.Buffer
			c.enforcer.parker.trouble.Log = zerolog.New(&log)
			if c.enforcer.backlog = 1000; parks {
				c.poison(t, all, 10)
			}
			healthtest.Run(t, c.enforcer.Run)
			c.ready(t)
			for sent := int64(500); !parks && sent <= all; sent += 500 {
				c.poison(t, 500, 10)
				healthtest.Eventually(t, "they are taken", func() bool {
					return c.enforcer.unfinished.Load() >= min(sent, 1000) || testutil.ToFloat64(c.enforcer.sheds) > 0
				})
			}
			p := c.Routed(t)
			if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied {
				t.Errorf("%+v", reply)
			}
			if parks {
				c.drained(t)
				answered := !strings.Contains(log.String(), "parking") // else one may be kept and then dropped, too
				kept, shed := c.parkedState(t).State.Msgs, testutil.ToFloat64(c.enforcer.sheds)
				if sum := float64(kept) + shed; kept < 1000 || sum < all || sum > all && answered {
					t.Errorf("%d are kept, %v dropped; PARKED always answered: %t", kept, shed, answered)
				}
				return
			}
			healthtest.Eventually(t, "some are dropped, and no more wait than there is room for", func() bool {
				return testutil.ToFloat64(c.enforcer.sheds) > 0 && c.enforcer.unfinished.Load() <= 1000
			})
		})
	}
}

// TestSignalsOfANewRouteAreTaken: the routes file is read again while signals are judged.
func TestSignalsOfANewRouteAreTaken(t *testing.T) {
	t.Parallel()
	c := &court{Book: bustest.NewBook(t), conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	var added atomic.Bool
	c.enforcer = judging(t, c.conn, c.Book)
	c.enforcer.config.Routes = func() []string {
		if added.Load() {
			return []string{domain.SandboxRoute, "new"}
		}
		return nil
	}
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	added.Store(true)
	p := c.Routed(t)
	s := bustest.Paid(p)
	s.Route = "new"
	reply, err := connector.NewSender(c.conn.NATS()).Send(healthtest.Within(t), p.Project, p.ID, s, bus.Said{})
	if err != nil || reply.Reason != domain.ReasonWrongRoute || c.enforcer.Err() != nil {
		t.Errorf("%+v, %v, %v", reply, err, c.enforcer.Err())
	}
}

// BenchmarkOutcomeBehindAFlood tells how long the outcome of a payment takes
// behind a hundred thousand signals.
func BenchmarkOutcomeBehindAFlood(b *testing.B) {
	for _, kind := range []string{"one payment", "one route"} {
		b.Run(kind, func(b *testing.B) {
			const all = 100_000
			book := bustest.NewBook(b)
			c := &court{Book: book, conn: bustest.ConnectTo(b, bustest.StartServer(b, embedded.Config{}))}
			c.enforcer = judging(b, c.conn, book)
			healthtest.Run(b, c.enforcer.Run)
			sandbox := connector.NewSandbox(c.conn.NATS(), time.Now)
			flooded := c.Routed(b)
			n := 0
			for b.Loop() {
				b.StopTimer()
				for range all {
					n++
					id := flooded.ID
					if kind == "one route" {
						id = c.IDs.Next()
					}
					s := bustest.Paid(flooded)
					s.Reference = fmt.Sprint(n)
					body, err := bus.EncodeSignal(s, bus.Said{})
					if err != nil {
						b.Fatal(err)
					}
					if err := c.conn.NATS().PublishMsg(&nats.Msg{Subject: bus.SignalSubject("bank", bustest.Project, id), Data: body}); err != nil {
						b.Fatal(err)
					}
				}
				if err := c.conn.NATS().Flush(); err != nil {
					b.Fatal(err)
				}
				p := c.Routed(b)
				b.StartTimer()
				if reply, err := sandbox.SignalPayment(b.Context(), p, domain.OutcomePaid, p.ID.String()); err != nil || reply.Result != domain.SignalApplied {
					b.Fatal(reply, err)
				}
			}
		})
	}
}
