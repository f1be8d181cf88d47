package signals

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
)

// publishAll publishes messages and waits until JetStream has them.
func (c *court) publishAll(t *testing.T, n int, message func(i int) *nats.Msg) {
	t.Helper()
	for i := range n {
		if err := c.conn.NATS().PublishMsg(message(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
}

// TestSignalsAreTakenAheadOfFloods, of one payment and of one route, which no
// consumer has delivered.
func TestSignalsAreTakenAheadOfFloods(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct {
		subject  func(c *court, i int) string
		messages int
		others   []string // routes
	}{
		"one payment": {
			func(*court, int) string { return bus.SignalSubject("bank", bustest.Project, domain.ID{1}) }, 3000, []string{"bank", "sandbox", "unheard-of"},
		},
		"one route": {
			func(c *court, _ int) string { return bus.SignalSubject("bank", bustest.Project, c.IDs.Next()) }, maxListedSubjects + 100, []string{"sandbox", "seen"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.NewBook(t)
			c := &court{Book: b, conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
			e := New(Config{Conn: c.conn, Ledger: b.Ledger, LogID: b.LogID, IDs: b.IDs, Table: domain.SandboxTable})
			e.routes.learn(domain.Payment{Route: "seen"})
			stream, _, err := e.open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			body := bustest.Encode(t, domain.Signal{Route: "bank", Outcome: domain.OutcomeFailed, Reference: "r", Amount: 100, Currency: "RUB"})
			c.publishAll(t, of.messages, func(i int) *nats.Msg { return &nats.Msg{Subject: of.subject(c, i), Data: body} })
			var subjects []string
			for _, route := range of.others {
				subjects = append(subjects, bus.SignalSubject(route, bustest.Project, c.IDs.Next()))
				c.publish(t, subjects[len(subjects)-1], "", body)
			}
			h := newInflight()
			if err := e.lookAhead(t.Context(), h, stream); err != nil {
				t.Fatal(err)
			}
			for i, subject := range subjects {
				if !h.has(subject) {
					t.Errorf("the signal through %s waits for the flood", of.others[i])
				}
			}
		})
	}
}

// TestSignalsTakenAheadAreJudgedOnce: also when they are delivered after that.
func TestSignalsTakenAheadAreJudgedOnce(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := &court{Book: b, conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	c.enforcer = judging(t, c.conn, b)
	c.enforcer.times.Scout = time.Millisecond
	if _, err := c.conn.JetStream().CreateStream(t.Context(), bus.SignalsConfig(b.LogID)); err != nil {
		t.Fatal(err)
	}
	const all = 20_000
	c.publishAll(t, all, func(int) *nats.Msg {
		return &nats.Msg{Subject: bus.SignalSubject("bank", bustest.Project, c.IDs.Next()), Data: []byte("poison")}
	})
	payments := make([]domain.Payment, 50)
	for i := range payments {
		payments[i] = c.Routed(t)
		c.flood(t, payments[i], 3, func(*domain.Signal) {})
	}
	healthtest.Run(t, c.enforcer.Run)
	c.drained(t)
	for _, p := range payments {
		if got := c.Payment(t, p.ID); got.Status != domain.Paid || len(got.Signals) != 3 || !strings.HasSuffix(got.Signals[0].Reference, "-0") {
			t.Fatalf("%s: %+v", got.Status, got.Signals)
		}
	}
	healthtest.Eventually(t, "nothing is left in hand", func() bool { return c.enforcer.queues.Load().count() == 0 })
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
					body, err := bus.EncodeSignal(s, "")
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
