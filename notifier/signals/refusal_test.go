package signals

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

// logged keeps what is logged.
type logged struct{ healthtest.Buffer }

// lines are those that do not say that the enforcer waits for a busy machine.
func (l *logged) lines() []string {
	all := strings.Split(strings.TrimSpace(l.String()), "\n")
	return slices.DeleteFunc(all, func(line string) bool { return strings.Contains(line, `"part":"enforcer"`) })
}

// alarmed is an enforcer of which the log is kept.
func alarmed(t *testing.T) (*court, *logged) {
	t.Helper()
	c, log := &court{Book: bustest.NewBook(t)}, new(logged)
	c.conn = bustest.ConnectTo(t, bustest.StartServer(t, embedded.Config{}))
	c.enforcer = New(Config{Conn: c.conn, Ledger: c.Ledger, LogID: c.LogID, IDs: c.IDs, Routes: testRoutes, Log: zerolog.New(log)})
	healthtest.Run(t, c.enforcer.Run)
	c.ready(t)
	return c, log
}

// What an attempt from before the payment brings is booked nowhere, so the
// operator is told; what changes nothing anyway is counted alone.
func TestRefusedMoneyIsAnAlarm(t *testing.T) {
	t.Parallel()
	c, log := alarmed(t)
	p := c.Routed(t)
	early := bustest.Paid(p)
	early.StartedAt -= 2000
	if r := c.signal(t, p, early); r.Result != domain.SignalRefused || r.Reason != domain.ReasonStartedEarly {
		t.Fatalf("%+v", r)
	}
	failed := early
	failed.Outcome = domain.OutcomeFailed
	c.signal(t, p, failed)
	lines := log.lines()
	if len(lines) != 1 || !strings.Contains(lines[0], `"level":"error","reason":"started_early"`) ||
		!strings.Contains(lines[0], p.ID.String()) || !strings.Contains(lines[0], "ask the provider") {
		t.Errorf("%q", lines)
	}
	if n := testutil.ToFloat64(c.enforcer.refusals.WithLabelValues(domain.ReasonStartedEarly)); n != 2 {
		t.Errorf("%v refusals are counted", n)
	}
	in := bustest.Paid(p)
	in.Reference += "-2"
	in.StartedAt -= in.StartedAt % 1000
	if r := c.signal(t, p, in); r.Result != domain.SignalApplied {
		t.Errorf("%+v", r)
	}

	// So is a dispute of more than was paid; one that is only heard of too late is not.
	disputed := in
	disputed.Outcome, disputed.Reference = domain.OutcomeDisputeLost, "dp_1"
	if r := c.signal(t, p, disputed); r.Result != domain.SignalApplied {
		t.Errorf("%+v", r)
	}
	disputed.Outcome = domain.OutcomeDisputed
	if r := c.signal(t, p, disputed); r.Result != domain.SignalRefused || r.Reason != domain.ReasonFinalStatus {
		t.Errorf("%+v", r)
	}
	disputed.Reference, disputed.Amount = "dp_2", p.Amount+1
	if r := c.signal(t, p, disputed); r.Result != domain.SignalRefused || r.Reason != domain.ReasonWrongAmount {
		t.Errorf("%+v", r)
	}
	if lines := log.lines(); len(lines) != 2 || !strings.Contains(lines[1], `"reason":"wrong_amount"`) || !strings.Contains(lines[1], "dp_2") {
		t.Errorf("%q", lines)
	}
}

// TestReferencesPayOnce: the second payment under a reference is refused,
// recorded and alarmed, whether it would be paid or booked as late funds, and
// also where both come in one batch.
func TestReferencesPayOnce(t *testing.T) {
	t.Parallel()
	c, log := alarmed(t)
	a, b, late := c.Routed(t), c.Routed(t), c.Routed(t)
	first := bustest.Paid(a)
	if r := c.signal(t, a, first); r.Result != domain.SignalApplied {
		t.Fatalf("%+v", r)
	}
	again := func(p domain.Payment) domain.Signal {
		s := bustest.Paid(p)
		s.Reference = first.Reference
		return s
	}
	wrong := again(late)
	wrong.Amount++
	for _, step := range []struct {
		p      domain.Payment
		signal domain.Signal
		result string
	}{
		{b, again(b), domain.SignalRefused},
		{b, again(b), domain.SignalUnchanged},
		{late, wrong, domain.SignalRefused},
		{a, first, domain.SignalUnchanged},
	} {
		r := c.signal(t, step.p, step.signal)
		if r.Result != step.result || (r.Reason != "") != (r.Result == domain.SignalRefused) || (r.Reason != "" && r.Reason != domain.ReasonReferenceUsed) {
			t.Errorf("%+v", r)
		}
	}
	if got := c.Payment(t, b.ID); got.Status != domain.AwaitingPayment || len(got.Signals) != 1 {
		t.Errorf("%+v", got)
	}
	if got := c.Payment(t, late.ID); got.LateFunds != 0 || got.Refused != 1 {
		t.Errorf("%+v", got)
	}
	lines := log.lines()
	if len(lines) != 2 || !strings.Contains(lines[0], `"reason":"reference_used"`) || !strings.Contains(lines[0], b.ID.String()) ||
		!strings.Contains(lines[0], `"holder_payment":"`+a.ID.String()+`"`) || !strings.Contains(lines[0], "ask the provider") {
		t.Errorf("%q", lines)
	}
	if r := c.signal(t, b, bustest.Paid(b)); r.Result != domain.SignalApplied {
		t.Errorf("under its own reference: %+v", r)
	}
	// A reference that failed, or that returns money, pays nobody.
	f := c.Routed(t)
	failed := again(f)
	failed.Outcome = domain.OutcomeFailed
	if r := c.signal(t, f, failed); r.Result != domain.SignalApplied {
		t.Errorf("a failure under the reference: %+v", r)
	}
}

// TestReferencesRefundOnce: the second refund or return of late funds under a reference
// is refused, recorded and alarmed, and stays pending. The reference of the money that
// came in may be that of the money that goes back.
func TestReferencesRefundOnce(t *testing.T) {
	t.Parallel()
	c, log := alarmed(t)
	const shared = "re_1"
	back := func(p domain.Payment, id domain.ID, reference string) domain.SignalReply {
		s := bustest.Paid(p)
		s.Outcome, s.Reference, s.RefundID = domain.OutcomeSucceeded, reference, &id
		return c.signal(t, p, s)
	}
	paid := func() domain.Payment {
		p := c.Routed(t)
		for _, reference := range []string{"in-" + p.ID.String(), "late-" + p.ID.String()} {
			s := bustest.Paid(p)
			s.Reference = reference
			c.signal(t, p, s)
		}
		c.Do(t, p.ID, domain.CreateRefund{At: p.CreatedAt, RefundID: c.IDs.Next()})
		return c.Do(t, p.ID, domain.CreateReturn{At: p.CreatedAt, ReturnID: c.IDs.Next(), Reference: "late-" + p.ID.String()})
	}
	a, b := paid(), paid()
	if r := back(a, a.Refunds[0].ID, shared); r.Result != domain.SignalApplied {
		t.Fatalf("%+v", r)
	}
	for _, step := range []struct {
		p      domain.Payment
		id     domain.ID
		result string
	}{
		{b, b.Refunds[0].ID, domain.SignalRefused},
		{b, b.Refunds[0].ID, domain.SignalUnchanged},
		{b, b.Returns[0].ID, domain.SignalRefused},
		{a, a.Returns[0].ID, domain.SignalRefused},
		{a, a.Refunds[0].ID, domain.SignalUnchanged},
	} {
		r := back(step.p, step.id, shared)
		if r.Result != step.result || (r.Result == domain.SignalRefused) != (r.Reason == domain.ReasonReferenceUsed) {
			t.Errorf("%s: %+v", step.id, r)
		}
	}
	if got := c.Payment(t, b.ID); got.Refunds[0].Status != domain.RefundPending || got.Returns[0].Status != domain.RefundPending {
		t.Errorf("%+v", got)
	}
	if n := testutil.ToFloat64(c.enforcer.refusals.WithLabelValues(domain.ReasonReferenceUsed)); n != 3 {
		t.Errorf("%v refusals are counted", n)
	}
	lines := log.lines()
	if len(lines) != 3 || !strings.Contains(lines[0], `"refund":"`+b.Refunds[0].ID.String()+`"`) ||
		!strings.Contains(lines[0], `"holder_payment":"`+a.ID.String()+`"`) || !strings.Contains(lines[0], "stays pending") {
		t.Errorf("%q", lines)
	}
	for _, step := range []struct {
		id        domain.ID
		reference string
	}{{b.Refunds[0].ID, b.PaidReference}, {b.Returns[0].ID, "re_2"}} {
		if r := back(b, step.id, step.reference); r.Result != domain.SignalApplied {
			t.Errorf("under a reference of its own: %+v", r)
		}
	}
}

// TestReferencesPayOnceInARace: many payments under one reference at once.
func TestReferencesPayOnceInARace(t *testing.T) {
	t.Parallel()
	c, _ := alarmed(t)
	const payments = 32
	all := make([]domain.Payment, payments)
	for i := range all {
		all[i] = c.Routed(t)
	}
	for _, p := range all {
		s := bustest.Paid(p)
		s.Reference = "shared"
		c.publish(t, bus.SignalSubject(s.Route, p.Project, p.ID), nats.NewInbox(), bustest.Encode(t, s))
	}
	c.drained(t)
	won := 0
	for _, p := range all {
		p = c.Payment(t, p.ID)
		if p.Status == domain.Paid {
			won++
		}
		if len(p.Signals) != 1 {
			t.Errorf("%d signals of a payment that is %s", len(p.Signals), p.Status)
		}
	}
	if won != 1 {
		t.Errorf("%d payments are paid", won)
	}
	if n := testutil.ToFloat64(c.enforcer.refusals.WithLabelValues(domain.ReasonReferenceUsed)); n != payments-1 {
		t.Errorf("%v refusals are counted", n)
	}
}
