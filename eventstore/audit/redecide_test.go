package audit

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// TestImpossibleEvents forges events that can be decoded and are in order, but no
// command leads to them.
func TestImpossibleEvents(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	refundSignal := func(o domain.Outcome, reference string) domain.Signal {
		s := signalled(o, reference)
		s.RefundID = &id
		return s
	}
	const paid, waiting, unrouted = 0, 1, 2 // of w.payments
	for name, c := range map[string]struct {
		payment int // -1: the project; -2: a new payment
		event   func(w *world) domain.Event
		why     string
	}{
		"paid before it was routed": {-3, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "no route"},
		"paid after it failed":      {unrouted, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "refused"},
		"paid twice":                {paid, func(*world) domain.Event { return domain.PaymentPaid{Signal: signalled(domain.OutcomePaid, "x")} }, "late_funds"},
		"the same signal again": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "paid_twice", Signal: signalled(domain.OutcomePaid, "b")}
		}, "nothing left to do"},
		"late funds of an attempt from before it": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "paid_twice", Signal: startedAt(domain.OutcomePaid, 1)}
		}, "signal_refused"},
		"another reason": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "after_failed", Signal: signalled(domain.OutcomePaid, "x")}
		}, "members"},
		"failed after it was paid": {paid, func(*world) domain.Event {
			return domain.PaymentFailed{Reason: "provider", Signal: new(signalled(domain.OutcomeFailed, "x"))}
		}, "signal_refused"},
		"no route after it was paid": {paid, func(*world) domain.Event { return domain.PaymentFailed{Reason: "no_route"} }, "nothing left to do"},
		"expired after it was paid":  {paid, func(*world) domain.Event { return domain.PaymentExpired{Reason: "deadline"} }, "nothing left to do"},
		"expired before its time":    {-3, func(*world) domain.Event { return domain.PaymentExpired{Reason: "deadline"} }, "too early"},
		"routed twice":               {waiting, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "acme"} }, "nothing left to do"},
		"routed with another amount": {-3, func(*world) domain.Event {
			return domain.PaymentRouteAssigned{Route: "sandbox", Amount: 1, Currency: "RUB", ExpiresAt: 1}
		}, "members"},
		"routed without an amount":      {-3, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "sandbox"} }, "members"},
		"a route that is no name":       {-3, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "A B"} }, "route"},
		"created twice":                 {paid, func(w *world) domain.Event { return w.created(domain.IDTime(w.payments[0])) }, "created before"},
		"not created":                   {-2, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "sandbox"} }, "not created"},
		"created at another time":       {-2, func(*world) domain.Event { return (*world)(nil).created(1_795_169_730_123) }, "recorded at"},
		"a second refund":               {paid, func(w *world) domain.Event { return w.refunded(150000) }, "refund_exists"},
		"a refund of an unpaid payment": {unrouted, func(w *world) domain.Event { return w.refunded(150000) }, "payment_not_paid"},
		"an unknown refund": {paid, func(*world) domain.Event {
			return domain.RefundSucceededEvent{RefundID: id, Signal: refundSignal("succeeded", "x")}
		}, "signal_refused"},
		"a signal of no form": {paid, func(*world) domain.Event {
			return domain.PaymentLateFunds{Reason: "paid_twice", Signal: domain.Signal{Route: "sandbox", Outcome: "won", Amount: 1, Currency: "RUB"}}
		}, "invalid_value"},
		"a project's event": {paid, func(*world) domain.Event { return projects.ProjectDisabled{} }, "no event of a payment"},
		"a payment's event": {-1, func(*world) domain.Event { return domain.PaymentRouteAssigned{Route: "sandbox"} }, "no event of a project"},
		"registered twice":  {-1, func(w *world) domain.Event { return projects.ProjectRegistered{Name: "x", Settings: w.settings} }, "registered before"},
		"changed to nothing": {-1, func(*world) domain.Event {
			return projects.ProjectChanged{Name: "x", Settings: domain.Settings{MaxAmount: 1}}
		}, "required"},
		"disabled twice":              {-1, func(*world) domain.Event { return projects.ProjectDisabled{} }, "nothing left to do"},
		"a key issued twice":          {-1, func(*world) domain.Event { return projects.KeyIssued{KeyID: "key_1", Scopes: projects.AllScopes()} }, "internal_error"},
		"an unknown key renamed":      {-1, func(*world) domain.Event { return projects.KeyRenamed{KeyID: "key_9"} }, "key_not_found"},
		"a key renamed to its name":   {-1, func(*world) domain.Event { return projects.KeyRenamed{KeyID: "key_1"} }, "nothing left to do"},
		"an unknown key revoked":      {-1, func(*world) domain.Event { return projects.KeyRevoked{KeyID: "key_9"} }, "key_not_found"},
		"a key revoked twice":         {-1, func(*world) domain.Event { return projects.KeyRevoked{KeyID: "key_1"} }, "nothing left to do"},
		"an unknown endpoint enabled": {-1, func(*world) domain.Event { return projects.WebhookEndpointEnabled{EndpointID: "we_9"} }, "webhook_endpoint_not_found"},
		"an endpoint of another time": {-1, func(*world) domain.Event {
			return projects.WebhookEndpointAdded{EndpointID: "we_9", URL: "https://x.example", Kinds: domain.FinalKinds(), CreatedAt: 1}
		}, "says it happened at"},
		"an endpoint without kinds": {-1, func(w *world) domain.Event {
			return projects.WebhookEndpointChanged{EndpointID: "we_1", URL: "https://x.example"}
		}, "webhook_endpoint_not_found"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t).lives()
			stream := eventstore.ProjectStream(w.project)
			switch c.payment {
			case -1:
			case -2:
				stream = eventstore.PaymentStream(w.project, w.ids.Next())
			case -3: // one that was just created
				stream = eventstore.PaymentStream(w.project, w.create(false))
			default:
				stream = eventstore.PaymentStream(w.project, w.payments[c.payment])
			}
			all := w.forged(w.records(), stream, c.event(w))
			r := w.check(all)
			// A repeated signal also repeats its claim.
			again := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Kind == BadClaim && strings.Contains(name, "again") })
			if again >= 0 {
				r.Findings = slices.Delete(r.Findings, again, again+1)
			}
			if len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.FirstBad != eventstore.Position(len(all)) {
				t.Fatalf("%+v", r.Findings)
			}
			if !strings.Contains(r.Findings[0].Detail, c.why) {
				t.Errorf("%q does not tell %q", r.Findings[0].Detail, c.why)
			}
		})
	}
}

func startedAt(o domain.Outcome, at domain.Instant) domain.Signal {
	s := signalled(o, "early")
	s.StartedAt = at
	return s
}

// TestRefundsOfRefusedMoneyStayPossible: until version 3 a refund by another hand could be
// recorded of money whose signal was refused.
func TestRefundsOfRefusedMoneyStayPossible(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]int{`"version":2`: 0, `"version":3`: 1} {
		w := newWorld(t)
		id := w.create(false)
		w.route(id)
		stream, early := eventstore.PaymentStream(w.project, id), startedAt(domain.OutcomePaid, 1)
		all := w.forged(w.records(), stream, domain.PaymentSignalRefused{Reason: domain.ReasonStartedEarly, Signal: early})
		all = w.forged(all, stream, domain.PaymentRefundedAtProvider{
			Route: early.Route, Reference: early.Reference, RefundReference: "re_1", Amount: early.Amount, Currency: early.Currency,
		})
		last := &all[len(all)-1]
		last.Body = bytes.Replace(last.Body, []byte(`"version":3`), []byte(version), 1)
		if r := w.check(all); len(r.Findings) != want {
			t.Errorf("%s: %+v", version, r.Findings)
		}
	}
}

// TestEventsOfBeforeStayPossible: events older than the rule that attempts begin
// after their payment are not findings.
func TestEventsOfBeforeStayPossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	events := []domain.Event{
		domain.PaymentPaid{Signal: startedAt(domain.OutcomePaid, 1)},
		domain.PaymentFailed{Reason: domain.ReasonProvider, Signal: new(startedAt(domain.OutcomeFailed, 1))},
		domain.PaymentExpired{Reason: domain.ReasonProvider, Signal: new(startedAt(domain.OutcomeExpired, 1))},
	}
	for range events {
		w.route(w.create(false))
	}
	fresh := w.payments[len(w.payments)-len(events):]
	again := startedAt(domain.OutcomePaid, 1)
	again.Reference = "again"
	before, after := []byte(`"version":1`), []byte(`"version":2`)
	all := w.records()
	n := len(all)
	for i, e := range events {
		all = w.forged(all, eventstore.PaymentStream(w.project, fresh[i]), e)
	}
	all = w.forged(all, eventstore.PaymentStream(w.project, fresh[0]),
		domain.PaymentLateFunds{Reason: domain.ReasonPaidTwice, Signal: again})
	all = w.forged(all, eventstore.PaymentStream(w.project, fresh[0]),
		domain.PaymentSignalRefused{Reason: domain.ReasonFinalStatus, Signal: startedAt(domain.OutcomeFailed, 1)})
	for i := n; i < len(all); i++ {
		all[i].Body = bytes.Replace(bytes.Replace(all[i].Body, after, before, 1), []byte(`"version":4`), before, 1)
		all[i].Claim = nil // nor was there one then
	}
	if r := w.check(all); !r.OK() {
		t.Errorf("%+v", r.Findings)
	}
	for _, i := range []int{n, len(all) - 2, len(all) - 1} {
		now := slices.Clone(all)
		now[i].Body = bytes.Replace(now[i].Body, before, after, 1)
		e, err := w.ledger.Codec.Decode(now[i])
		if err != nil {
			t.Fatal(err)
		}
		now[i].Claim = eventstore.ClaimOf(e, 2)
		if r := w.check(now); len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.FirstBad != now[i].Position {
			t.Errorf("%+v", r.Findings)
		}
	}
}

// TestRoutesWithoutAmountStayPossible: version 1 of payment.route_assigned named
// the route alone, and nothing but that.
func TestRoutesWithoutAmountStayPossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	stream := eventstore.PaymentStream(w.project, w.create(false))
	before := func(e domain.Event) []eventstore.Stored {
		all := w.forged(w.records(), stream, e)
		last := &all[len(all)-1]
		last.Body = bytes.Replace(last.Body, []byte(`"version":2`), []byte(`"version":1`), 1)
		return all
	}
	if r := w.check(before(domain.PaymentRouteAssigned{Route: "sandbox"})); !r.OK() {
		t.Errorf("%+v", r.Findings)
	}
	all := before(domain.PaymentRouteAssigned{Route: "sandbox", Amount: 1})
	if r := w.check(all); len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.FirstBad != eventstore.Position(len(all)) {
		t.Errorf("%+v", r.Findings)
	}
}

func (*world) created(at domain.Instant) domain.Event {
	return domain.PaymentCreated{
		CreatedAt: at, ExpiresAt: at.Add(time.Hour), Amount: 1, Currency: "RUB", Payload: domain.EmptyObject(),
	}
}

func (w *world) refunded(a domain.Amount) domain.Event {
	id, _ := w.ids.Pair()
	return domain.RefundCreated{RefundID: id, CreatedAt: domain.IDTime(id), Amount: a, Currency: "RUB"}
}
