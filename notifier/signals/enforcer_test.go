package signals

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/connector"
	"payledger/notifier/health/healthtest"
)

// court is an enforcer at work, and a way to send it anything.
type court struct {
	*bustest.Book
	conn     *bus.Conn
	enforcer *Enforcer
}

func newCourt(t *testing.T) *court {
	t.Helper()
	c := &court{Book: bustest.NewBook(t)}
	c.conn = bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	c.enforcer = judging(t, c.conn, c.Book)
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	return c
}

func (c *court) ready(t *testing.T) {
	t.Helper()
	healthtest.Eventually(t, "the enforcer listens", func() bool {
		_, err := c.conn.JetStream().Consumer(t.Context(), bus.SignalsStream, bus.RouteConsumer(domain.SandboxRoute))
		return err == nil
	})
}

// send publishes a body and waits for the answer.
func (c *court) send(t *testing.T, subject string, body []byte) domain.SignalReply {
	t.Helper()
	inbox := nats.NewInbox()
	sub, err := c.conn.NATS().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	c.publish(t, subject, inbox, body)
	m, err := sub.NextMsgWithContext(healthtest.Within(t))
	if err != nil {
		t.Fatal(err)
	}
	var reply domain.SignalReply
	if err := json.Unmarshal(m.Data, &reply, json.RejectUnknownMembers(true)); err != nil {
		t.Fatal(err)
	}
	return reply
}

func (c *court) publish(t *testing.T, subject, inbox string, body []byte) {
	t.Helper()
	_, err := c.conn.JetStream().PublishMsg(healthtest.Within(t), &nats.Msg{
		Subject: subject, Data: body, Header: nats.Header{bus.ReplyHeader: {inbox}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (c *court) signal(t *testing.T, p domain.Payment, s domain.Signal) domain.SignalReply {
	t.Helper()
	return c.send(t, bus.SignalSubject(s.Route, p.Project, p.ID), bustest.Encode(t, s))
}

func TestEnforcerJudges(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	type step struct {
		change         func(*domain.Signal)
		result, reason string
	}
	failed := func(s *domain.Signal) { s.Outcome = domain.OutcomeFailed }
	for name, steps := range map[string][]step{
		"paid, sent twice":      {{nil, domain.SignalApplied, ""}, {nil, domain.SignalUnchanged, ""}},
		"failed":                {{failed, domain.SignalApplied, ""}},
		"expired":               {{func(s *domain.Signal) { s.Outcome = domain.OutcomeExpired }, domain.SignalApplied, ""}},
		"another route":         {{func(s *domain.Signal) { s.Route = "other" }, domain.SignalRefused, domain.ReasonWrongRoute}},
		"wrong amount":          {{func(s *domain.Signal) { s.Amount++ }, domain.SignalLateFunds, domain.ReasonWrongAmount}},
		"wrong currency":        {{func(s *domain.Signal) { s.Currency = "USD" }, domain.SignalLateFunds, domain.ReasonWrongAmount}},
		"begun early":           {{func(s *domain.Signal) { s.StartedAt -= 1e10 }, domain.SignalRefused, domain.ReasonStartedEarly}},
		"begun late":            {{func(s *domain.Signal) { s.StartedAt += 1e10 }, domain.SignalLateFunds, domain.ReasonStartedLate}},
		"paid after failed":     {{failed, domain.SignalApplied, ""}, {nil, domain.SignalLateFunds, domain.ReasonAfterFailed}},
		"failed after paid":     {{nil, domain.SignalApplied, ""}, {failed, domain.SignalRefused, domain.ReasonFinalStatus}},
		"refund there is none":  {{func(s *domain.Signal) { s.Outcome, s.RefundID = domain.OutcomeSucceeded, &domain.ID{7} }, domain.SignalRefused, domain.ReasonUnknownRefund}},
		"paid twice":            {{nil, domain.SignalApplied, ""}, {func(s *domain.Signal) { s.Reference += "-2" }, domain.SignalLateFunds, domain.ReasonPaidTwice}},
		"same name, other news": {{nil, domain.SignalApplied, ""}, {func(s *domain.Signal) { s.Amount++ }, domain.SignalRefused, domain.ReasonReferenceConflict}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := c.Routed(t)
			for i, step := range steps {
				s := bustest.Paid(p)
				if step.change != nil {
					step.change(&s)
				}
				reply := c.signal(t, p, s)
				if reply.Result != step.result || reply.Reason != step.reason {
					t.Fatalf("step %d: %+v, want %s %s", i, reply, step.result, step.reason)
				}
				if (reply.EventID == nil) != (step.result == domain.SignalUnchanged) {
					t.Errorf("step %d: %+v", i, reply)
				}
				if reply.EventID == nil {
					continue
				}
				// What was answered is durable under that name and position.
				for r, err := range c.Store.Scan(t.Context(), eventstore.Position(reply.Position-1), eventstore.Filter{}) {
					if err != nil || r.Commit != *reply.EventID || r.Stream.ID != p.ID.String() {
						t.Errorf("step %d: %+v, %v", i, r, err)
					}
					break
				}
			}
		})
	}
}

func TestEnforcerParksPoison(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	good := string(bustest.Encode(t, bustest.Paid(p)))
	subject := bus.SignalSubject(p.Route, p.Project, p.ID)
	with := func(old, replacement string) string {
		s := strings.Replace(good, old, replacement, 1)
		if s == good {
			t.Fatalf("%s is not in %s", old, good)
		}
		return s
	}
	cases := []struct{ name, subject, body, reason string }{
		{"empty", subject, "", ParkedMalformed},
		{"no JSON", subject, "paid", ParkedMalformed},
		{"array", subject, "[]", ParkedMalformed},
		{"null", subject, "null", ParkedMalformed},
		{"trailing data", subject, good + "{}", ParkedMalformed},
		{"unknown member", subject, with("{", `{"extra":1,`), ParkedMalformed},
		{"route in the body", subject, with("{", `{"route":"sandbox",`), ParkedMalformed},
		{"duplicate member", subject, with("{", `{"outcome":"failed",`), ParkedMalformed},
		{"other case", subject, with(`"outcome"`, `"Outcome"`), ParkedMalformed},
		{"invalid UTF-8", subject, with(`"ref-`+p.ID.String()+`"`, "\"\xff\""), ParkedMalformed},
		{"unknown outcome", subject, with(`"paid"`, `"paidd"`), ParkedMalformed},
		{"outcome of refunds", subject, with(`"paid"`, `"succeeded"`), ParkedMalformed},
		{"amount as a number", subject, with(`"1500.00"`, `1500.00`), ParkedMalformed},
		{"amount in another form", subject, with(`"1500.00"`, `"1.5e3"`), ParkedMalformed},
		{"no reference", subject, with(`"ref-`+p.ID.String()+`"`, `""`), ParkedMalformed},
		{"control character", subject, with(`"ref-`+p.ID.String()+`"`, `"a\u0000"`), ParkedMalformed},
		{"long reference", subject, with(`"ref-`+p.ID.String()+`"`, `"`+strings.Repeat("r", 129)+`"`), ParkedMalformed},
		{"refund id in lower case", subject, with("{", `{"refund_id":"01m7w78fjbm8t4r7b5n0c1d2e3",`), ParkedMalformed},
		{"payment id in lower case", "payledger.v1.signals.sandbox." + bustest.Project + "." + strings.ToLower(p.ID.String()), good, ParkedMalformed},
		{"short subject", "payledger.v1.signals.sandbox." + bustest.Project, good, ParkedMalformed},
		{"long subject", subject + ".more", good, ParkedMalformed},
		{"unknown payment", bus.SignalSubject(p.Route, p.Project, c.IDs.Next()), good, ParkedUnknownPayment},
		{"another project's payment", bus.SignalSubject(p.Route, "prj_other", p.ID), good, ParkedUnknownPayment},
	}
	for _, tt := range cases {
		if reply := c.send(t, tt.subject, []byte(tt.body)); reply.Result != domain.SignalParked || reply.Reason != tt.reason || reply.EventID != nil {
			t.Errorf("%s: %+v", tt.name, reply)
		}
	}
	parked, err := c.conn.JetStream().Stream(t.Context(), bus.ParkedStream)
	if err != nil || parked.CachedInfo().State.Msgs != uint64(len(cases)) {
		t.Fatalf("%d parked, %v: want %d", parked.CachedInfo().State.Msgs, err, len(cases))
	}
	for i, tt := range cases {
		m, err := parked.GetMsg(t.Context(), uint64(i)+1)
		if err != nil {
			t.Fatal(err)
		}
		if string(m.Data) != tt.body || m.Header.Get(HeaderParkedSubject) != tt.subject ||
			m.Header.Get(HeaderParkedReason) != tt.reason || m.Header.Get(HeaderParkedDetail) == "" || m.Header.Get(bus.ReplyHeader) == "" {
			t.Errorf("%s: %s %v", tt.name, m.Data, m.Header)
		}
	}
	if n := testutil.ToFloat64(c.enforcer.parker.parked.WithLabelValues(ParkedMalformed)); int(n) != len(cases)-2 {
		t.Errorf("%v counted as malformed", n)
	}
	if n := testutil.ToFloat64(c.enforcer.parker.parked.WithLabelValues(ParkedUnknownPayment)); n != 2 {
		t.Errorf("%v counted as of unknown payments", n)
	}
	if got := c.Payment(t, p.ID); len(got.Signals) != 0 {
		t.Errorf("recorded: %+v", got.Signals)
	}
	c.drained(t)
}

// drained waits until nothing is left in SIGNALS.
func (c *court) drained(t *testing.T) {
	t.Helper()
	healthtest.Eventually(t, "SIGNALS is empty", func() bool {
		s, err := c.conn.JetStream().Stream(t.Context(), bus.SignalsStream)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
}

// TestEarlySignalsWaitAlone: the first payment has no route yet.
func TestEarlySignalsWaitAlone(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	early := c.Payment(t, c.Create(t, time.Hour))
	for i := range 3 {
		s := bustest.Paid(early)
		s.Reference = fmt.Sprint("ref-", i)
		c.publish(t, bus.SignalSubject(s.Route, early.Project, early.ID), nats.NewInbox(), bustest.Encode(t, s))
	}
	healthtest.Eventually(t, "they wait", func() bool { return c.enforcer.unfinished.Load() > 0 })
	for range 10 {
		p := c.Routed(t)
		if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied {
			t.Fatalf("%+v", reply)
		}
	}
	if got := c.Payment(t, early.ID); got.Status != domain.Created {
		t.Fatalf("payment is %s", got.Status)
	}
	c.Do(t, early.ID, domain.AssignRoute{Table: domain.SandboxTable()})
	c.drained(t)
	got := c.Payment(t, early.ID)
	if got.Status != domain.Paid || len(got.Signals) != 3 {
		t.Fatalf("%+v", got)
	}
}

// TestEnforcerAnswersConnectorsOnly: it may publish everywhere, its senders
// may not.
func TestEnforcerAnswersConnectorsOnly(t *testing.T) {
	t.Parallel()
	c := newCourt(t)
	p := c.Routed(t)
	heard, err := c.conn.NATS().SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	for i, inbox := range []string{
		bus.EventSubject(bustest.Project, domain.TypePaymentPaid), "$JS.API.STREAM.DELETE.SIGNALS", "_INBOX_ledger.x", "_INBOX.>", "foo",
	} {
		s := bustest.Paid(p)
		s.Reference = fmt.Sprint("ref-", i)
		c.publish(t, bus.SignalSubject(s.Route, p.Project, p.ID), inbox, bustest.Encode(t, s))
		healthtest.Eventually(t, "the signal is recorded", func() bool { return len(c.Payment(t, p.ID).Signals) == i+1 })
	}
	c.drained(t)
	if n := testutil.ToFloat64(c.enforcer.mute); n != 5 {
		t.Errorf("%v answers refused", n)
	}
	if err := c.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := heard.NextMsg(time.Millisecond)
		if err != nil {
			break
		}
		if strings.Contains(string(m.Data), `"result"`) {
			t.Errorf("answered on %s", m.Subject)
		}
	}
}

// TestEnforcerRetriesABusyStore: busy and full pass, and the signal is not
// lost in between.
func TestEnforcerRetriesABusyStore(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	c := &court{Book: b, conn: bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))}
	p := c.Routed(t)
	fails := &bustest.Failing{Store: c.Store, Left: make(chan error, 3)}
	fails.Left <- eventstore.ErrBusy
	fails.Left <- eventstore.ErrFull
	fails.Left <- eventstore.ErrBusy
	c.enforcer = judging(t, c.conn, b)
	c.enforcer.config.Ledger.Store = fails
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Result != domain.SignalApplied || len(fails.Left) != 0 {
		t.Errorf("%+v", reply)
	}
}

// TestFatalStoreErrorsEndTheWork and leave the signal in SIGNALS.
func TestFatalStoreErrorsEndTheWork(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	p := b.Routed(t)
	conn := bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	fails := &bustest.Failing{Store: b.Store, Left: make(chan error, 1)}
	fails.Left <- &eventstore.FatalError{Err: errors.New("disk on fire")}
	e := judging(t, conn, b)
	e.config.Ledger.Store = fails
	done := make(chan error, 1)
	go func() { done <- e.Run(context.Background()) }()
	c := &court{Book: b, conn: conn, enforcer: e}
	c.ready(t)
	c.publish(t, bus.SignalSubject(p.Route, p.Project, p.ID), nats.NewInbox(), bustest.Encode(t, bustest.Paid(p)))
	if err := <-done; !errors.As(err, new(*eventstore.FatalError)) {
		t.Fatalf("%v", err)
	}
	// The next process takes it up at once.
	healthtest.Run(t, judging(t, conn, b).Run)
	healthtest.Eventually(t, "the payment is paid", func() bool { return b.Payment(t, p.ID).Status == domain.Paid })
	c.drained(t)
}

// TestEnforcerSurvivesTheLossOfItsStreams.
func TestEnforcerSurvivesTheLossOfItsStreams(t *testing.T) {
	t.Parallel()
	for what, lose := range map[string]func(context.Context, jetstream.JetStream) error{
		"SIGNALS": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteStream(ctx, bus.SignalsStream)
		},
		"PARKED": func(ctx context.Context, js jetstream.JetStream) error {
			healthtest.Eventually(t, "PARKED is there and is deleted", func() bool { return js.DeleteStream(ctx, bus.ParkedStream) == nil })
			return nil
		},
		"consumer": func(ctx context.Context, js jetstream.JetStream) error {
			return js.DeleteConsumer(ctx, bus.SignalsStream, bus.RouteConsumer(domain.SandboxRoute))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := newCourt(t)
			sandbox := connector.NewSandbox(c.conn.NATS(), time.Now)
			if err := lose(t.Context(), c.conn.JetStream()); err != nil {
				t.Fatal(err)
			}
			p := c.Routed(t)
			if reply, err := sandbox.SignalPayment(healthtest.Within(t), p, domain.OutcomePaid, bustest.Paid(p).Reference); err != nil || reply.Result != domain.SignalApplied {
				t.Errorf("%+v, %v", reply, err)
			}
			c.ready(t)
			subject := bus.SignalSubject(domain.SandboxRoute, bustest.Project, c.IDs.Next())
			if reply := c.send(t, subject, []byte("poison")); reply.Result != domain.SignalParked {
				t.Errorf("%+v", reply)
			}
		})
	}
}

// testRoutes are the routes of tests.
func testRoutes() []string { return []string{domain.SandboxRoute, "bank", "other"} }

// judging is an enforcer with short pauses.
func judging(tb testing.TB, c *bus.Conn, b *bustest.Book) *Enforcer {
	tb.Helper()
	times := DefaultTimes()
	// A test that has no CPU for seconds does not lose its pulls.
	times.Retry, times.Watch, times.Heartbeat = healthtest.Quick(), 100*time.Millisecond, 10*time.Second
	return New(Config{
		Conn: c, Ledger: b.Ledger, LogID: b.LogID, IDs: b.IDs, Routes: testRoutes, Times: times, Log: healthtest.Log(tb),
	})
}

// unsure is the store of a node that cannot confirm at first that it leads.
type unsure struct {
	eventstore.Store

	left atomic.Int64 // confirmations that fail
}

func (s *unsure) Arrive(bool) func(context.Context) error {
	return func(context.Context) error {
		if s.left.Add(-1) >= 0 {
			return eventstore.ErrBusy
		}
		return nil
	}
}

// TestUnknownPaymentIsConfirmed: a node that may have been deposed parks no signal because it does not
// have the payment.
func TestUnknownPaymentIsConfirmed(t *testing.T) {
	t.Parallel()
	c := &court{Book: bustest.NewBook(t)}
	store := &unsure{Store: c.Store}
	store.left.Store(3)
	c.Store = store
	c.conn = bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	c.enforcer = judging(t, c.conn, c.Book)
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	p := c.Payment(t, c.Create(t, time.Hour))
	p.ID = c.IDs.Next()
	if reply := c.signal(t, p, bustest.Paid(p)); reply.Reason != ParkedUnknownPayment {
		t.Errorf("%+v", reply)
	}
	if store.left.Load() >= 0 {
		t.Error("it was parked before it was confirmed")
	}
}
