package domain_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/domain/projects"
)

// The generators draw from few values, so that references, refunds and amounts are
// often equal.
func drawSignal(t *rapid.T) domain.Signal {
	s := domain.Signal{
		Route:     rapid.SampledFrom([]string{"sandbox", "sandbox", "sandbox", "bank"}).Draw(t, "route"),
		Outcome:   rapid.SampledFrom([]domain.Outcome{"paid", "failed", "expired", "succeeded"}).Draw(t, "outcome"),
		Reference: rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "reference"),
		Amount:    rapid.SampledFrom([]domain.Amount{sum, sum, sum, sum - 1}).Draw(t, "amount"),
		Currency:  rapid.SampledFrom([]domain.Currency{"RUB", "RUB", "RUB", "EUR"}).Draw(t, "currency"),
		StartedAt: drawInstant(t),
	}
	if rapid.Bool().Draw(t, "of a refund") {
		refund := id(rapid.ByteRange(2, 4).Draw(t, "refund"))
		s.RefundID = &refund
	}
	return s
}

func drawInstant(t *rapid.T) domain.Instant {
	return rapid.SampledFrom([]domain.Instant{
		createdAt - 1000, createdAt, expiresAt - 1, expiresAt, expiresAt + 1, graceEnd - 1, graceEnd, graceEnd + 1,
	}).Draw(t, "at")
}

// drawCommand draws any command. fresh is an unused refund id; the id before it is
// that of the newest refund, if there is one.
func drawCommand(t *rapid.T, fresh domain.ID) domain.PaymentCommand {
	reference := func() string { return rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "reference of the attempt") }
	number := func() int { return rapid.IntRange(0, 3).Draw(t, "attempt") }
	switch rapid.IntRange(0, 15).Draw(t, "command") {
	case 10:
		return domain.BeginAttempt{At: drawInstant(t), Language: "ru", Merchant: "Shop"}
	case 11:
		return domain.OfferAttempt{Number: number(), Reference: reference(), HandOff: domain.HandOffRedirect}
	case 12:
		return domain.FailAttempt{
			Number: number(), Reason: rapid.SampledFrom([]string{"abandoned", "card_declined", "Not a code", ""}).Draw(t, "reason"),
		}
	case 13:
		return domain.CreateReturn{At: drawInstant(t), ReturnID: fresh, Reference: reference()}
	case 14:
		return domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
			Reference: reference(), RefundReference: reference(), Amount: sum, Currency: "RUB",
		}}
	case 15:
		s := drawSignal(t)
		s.RefundID, s.Outcome = nil, rapid.SampledFrom([]domain.Outcome{"disputed", "disputed", "dispute_won", "dispute_lost"}).Draw(t, "dispute")
		return domain.ApplySignal{Signal: s, Reason: rapid.SampledFrom([]string{"", "fraudulent", "duplicate"}).Draw(t, "reason")}
	case 0:
		c := domain.CreatePayment{At: drawInstant(t), Amount: sum, Currency: "RUB", Settings: domain.DefaultSettings()}
		if rapid.Bool().Draw(t, "with its route") {
			c.Routing = &domain.Routing{Table: domain.SandboxTable()}
		}
		return c
	case 1:
		route := rapid.SampledFrom([]string{"sandbox", "sandbox", "sandbox", ""}).Draw(t, "route offered")
		if route == "" {
			return domain.AssignRoute{}
		}
		return domain.AssignRoute{Table: routes(domain.Rule{Route: route, Min: 1, Max: domain.MaxAmount, Weight: 1})}
	case 2:
		return domain.ExpirePayment{At: drawInstant(t)}
	case 3, 4:
		return domain.CreateRefund{At: drawInstant(t), RefundID: fresh}
	case 5, 6:
		newest := fresh
		newest[15]--
		outcome := rapid.SampledFrom([]domain.Outcome{"succeeded", "failed", "returned"}).Draw(t, "outcome of the newest refund")
		return domain.ApplySignal{Signal: refundWord(outcome, rapid.SampledFrom([]string{"A", "B", "C"}).Draw(t, "reference"), newest)}
	default:
		return domain.ApplySignal{Signal: drawSignal(t)}
	}
}

// drawEvent draws any event of a payment or project, whether it can follow or not.
func drawEvent(t *rapid.T) domain.Event {
	s := drawSignal(t)
	refund := id(rapid.ByteRange(2, 4).Draw(t, "refund"))
	created := refundCreated(2)
	created.RefundID = refund
	events := []domain.Event{
		paymentCreated(),
		domain.PaymentRouteAssigned{Route: s.Route},
		domain.PaymentPaid{Signal: s},
		domain.PaymentExpired{Reason: domain.ReasonDeadline},
		domain.PaymentExpired{Reason: domain.ReasonProvider, Signal: &s},
		domain.PaymentFailed{Reason: domain.ReasonNoRoute},
		domain.PaymentFailed{Reason: domain.ReasonProvider, Signal: &s},
		domain.PaymentSignalRefused{Reason: domain.ReasonWrongRoute, Signal: s},
		domain.PaymentLateFunds{Reason: domain.ReasonPaidTwice, Signal: s},
		created,
		domain.RefundSucceededEvent{RefundID: refund, Signal: s},
		domain.RefundFailedEvent{RefundID: refund, Signal: s},
		domain.RefundReturned{RefundID: refund, Signal: s},
		domain.PaymentAttemptBegun{Attempt: 1, Language: "ru"},
		domain.PaymentAttemptBegun{Attempt: 2, Language: "ru"},
		domain.PaymentAttemptOffered{Attempt: 1, Reference: s.Reference},
		domain.PaymentAttemptFailed{Attempt: 1, Reason: "card_declined"},
		domain.PaymentDisputed{Signal: s},
		domain.PaymentDisputed{Opened: true, Reason: "fraudulent", Signal: s},
		domain.PaymentDisputeWon{Opened: true, Signal: s},
		domain.PaymentDisputeWon{Opened: true, Lost: true, Signal: s},
		domain.PaymentDisputeLost{Opened: true, Signal: s},
		domain.ReturnCreated{ReturnID: refund, Reference: s.Reference, Amount: sum, Currency: "RUB"},
		domain.ReturnSucceeded{ReturnID: refund, Signal: s},
		domain.ReturnFailed{ReturnID: refund, Signal: s},
		domain.ReturnFailed{ReturnID: refund, Returned: true, Signal: s},
		domain.PaymentRefundedAtProvider{Route: s.Route, Reference: s.Reference, RefundReference: "R", Amount: sum, Currency: "RUB"},
	}
	for _, e := range domain.Events() {
		events = append(events, e.Sample)
	}
	return rapid.SampledFrom(events).Draw(t, "event")
}

// rank is the order of a status in a payment's life. It does not use CanBecome,
// which the properties test.
func rank(s domain.PaymentStatus) int {
	return slices.Index([]domain.PaymentStatus{"", "created", "awaiting_payment", "paid"}, s)
}

// checkForward fails when anything about the payment went backward.
func checkForward(t *rapid.T, before, after domain.Payment) {
	ended := func(s domain.PaymentStatus) bool { return s == "paid" || s == "expired" || s == "failed" }
	switch {
	case before.Status == after.Status:
	case ended(before.Status):
		t.Fatalf("the final status %s became %s", before.Status, after.Status)
	case after.Status == "expired" || after.Status == "failed":
		if before.Status == "" {
			t.Fatalf("a payment began as %s", after.Status)
		}
	case before.Status == "" && after.Status == "awaiting_payment": // created with its route
	case rank(after.Status) != rank(before.Status)+1:
		t.Fatalf("%q became %q", before.Status, after.Status)
	}
	if before.Status != "" && (before.Amount != after.Amount || before.Currency != after.Currency ||
		before.ExpiresAt != after.ExpiresAt || before.CreatedAt != after.CreatedAt) {
		t.Fatalf("what was promised changed:\n%s", cmp.Diff(before, after))
	}
	if before.Route != "" && before.Route != after.Route {
		t.Fatalf("the route %s became %s", before.Route, after.Route)
	}
	if len(after.Attempts) < len(before.Attempts) {
		t.Fatalf("an attempt was forgotten:\n%s", cmp.Diff(before, after))
	}
	for i, a := range before.Attempts {
		if order := []domain.AttemptStatus{"begun", "offered", "failed", "collected"}; slices.Index(order, after.Attempts[i].Status) < slices.Index(order, a.Status) {
			t.Fatalf("attempt %d went from %s to %s", a.Number, a.Status, after.Attempts[i].Status)
		}
	}
	if len(after.Refunds) < len(before.Refunds) || len(after.Signals) < len(before.Signals) || len(after.Returns) < len(before.Returns) {
		t.Fatalf("something was forgotten:\n%s", cmp.Diff(before, after))
	}
	for i, d := range before.Disputes {
		now := after.Disputes[i]
		if d.Status != "open" && d.Status != now.Status && (d.Status != "lost" || now.Status != "won") {
			t.Fatalf("dispute %+v became %+v", d, now)
		}
		if d.Status == "open" && now.Status == "open" { // what was not known of it may be told later
			if d.Reason == "" {
				d.Reason = now.Reason
			}
			if d.EvidenceDueBy == 0 {
				d.EvidenceDueBy = now.EvidenceDueBy
			}
			if d.OpenedAt == 0 {
				d.OpenedAt = now.OpenedAt
			}
		}
		if d.Status = now.Status; d != now {
			t.Fatalf("dispute %+v became %+v", d, now)
		}
	}
	refunds := func(p domain.Payment) []domain.Refund { // and returns
		all := slices.Clone(p.Refunds[:len(before.Refunds)])
		for _, r := range p.Returns[:len(before.Returns)] {
			all = append(all, r.Refund)
		}
		return all
	}
	later := refunds(after)
	for i, r := range refunds(before) {
		now := later[i]
		if r.Status != "pending" && r.Status != now.Status {
			t.Fatalf("refund %s went from %s to %s", r.ID, r.Status, now.Status)
		}
		if r.Returned && !now.Returned || now.Returned && now.Status != "succeeded" {
			t.Fatalf("refund %+v became %+v", r, now)
		}
		if r.Status, r.Returned = now.Status, now.Returned; r != now {
			t.Fatalf("refund %+v became %+v", r, now)
		}
	}
}

// checkConsistent fails when a payment that was made by commands is inconsistent.
func checkConsistent(t *rapid.T, p domain.Payment) {
	for i, a := range p.Attempts {
		if a.Open() && i != len(p.Attempts)-1 {
			t.Fatalf("attempt %d is open behind a later one", a.Number)
		}
	}
	returned := map[string]int{}
	for _, r := range p.Returns {
		if f, ok := p.LateFund(r.Reference); !ok || f.Amount != r.Amount || f.Currency != r.Currency {
			t.Fatalf("return %+v of %+v", r, f)
		}
		if r.Status != "failed" && !r.Returned {
			returned[r.Reference]++
		}
		if returned[r.Reference] > 1 {
			t.Fatalf("late funds are returned twice: %+v", p.Returns)
		}
	}
	open := 0
	for _, r := range p.Refunds {
		if r.Amount != p.Amount || r.Currency != p.Currency {
			t.Fatalf("refund of %s %s of a payment of %s %s", r.Amount, r.Currency, p.Amount, p.Currency)
		}
		if r.Status != "failed" && !r.Returned {
			open++
		}
	}
	if open > 1 {
		t.Fatalf("%d refunds are pending or succeeded: %+v", open, p.Refunds)
	}
	if len(p.Refunds) > 0 && p.Status != "paid" {
		t.Fatalf("a payment that is %s has refunds", p.Status)
	}
	switch p.Status {
	case "awaiting_payment", "paid":
		if p.Route == "" {
			t.Fatalf("%s without a route", p.Status)
		}
	case "created":
		if p.Route != "" {
			t.Fatalf("created with the route %s", p.Route)
		}
	}
	if (p.FailureReason != "") != (p.Status == "failed") {
		t.Fatalf("%s with failure reason %q", p.Status, p.FailureReason)
	}
	early := func(s domain.Signal) bool { return s.StartedAt != 0 && s.StartedAt/1000 < p.CreatedAt/1000 }
	for i, s := range p.Signals {
		for _, o := range p.Signals[:i] {
			sameRefund := (s.RefundID == nil) == (o.RefundID == nil) && (s.RefundID == nil || *s.RefundID == *o.RefundID)
			if s.Reference == o.Reference && s.Outcome == o.Outcome && sameRefund &&
				s.Route == o.Route && s.Amount == o.Amount && s.Currency == o.Currency &&
				early(o) == early(s) { // else one of them began too early, and the other is another word
				t.Fatalf("the signal %+v was recorded twice", s)
			}
		}
	}
}

func TestNoCommandsMoveAStatusBackward(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p, next := newPayment(), byte(2)
		if rapid.Bool().Draw(t, "starts paid") {
			p = fold(paid())
		}
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			c := drawCommand(t, id(next))
			e, err := p.Decide(c)
			if (e != nil) && (err != nil) {
				t.Fatalf("%+v led to both %+v and %v", c, e, err)
			}
			if err != nil {
				checkRefusal(t, err)
			}
			if e == nil {
				continue
			}
			after := p.Evolve(e)
			checkForward(t, p, after)
			checkConsistent(t, after)
			if cmp.Equal(p, after) {
				t.Fatalf("%+v led to %+v, which changes nothing", c, e)
			}
			if s, ok := c.(domain.ApplySignal); ok {
				if again, err := after.Decide(s); again != nil || err != nil {
					t.Fatalf("%+v led to %+v, and again to %+v, %v", s, e, again, err)
				}
			}
			switch e.(type) {
			case domain.RefundCreated, domain.ReturnCreated:
				next++
			}
			p = after
		}
	})
}

func checkRefusal(t *rapid.T, err error) {
	var fields domain.FieldErrors
	var refusal *domain.Refusal
	var early *domain.TooEarlyError
	if !errors.As(err, &fields) && !errors.As(err, &refusal) && !errors.As(err, &early) && !errors.As(err, new(*domain.UnrecordedError)) &&
		!errors.As(err, new(*domain.AttemptError)) {
		t.Fatalf("refused with %T %v", err, err)
	}
	if err.Error() == "" {
		t.Fatalf("%T says nothing", err)
	}
}

func TestNoEventsMoveAStatusBackward(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := newPayment()
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			after := p.Evolve(drawEvent(t))
			checkForward(t, p, after)
			p = after
		}
	})
}

// TestEvolveLeavesItsReceiverAlone evolves one payment in two ways, as two
// racing commands do, and compares the results with payments folded separately.
func TestEvolveLeavesItsReceiverAlone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var past []domain.Event
		for range rapid.IntRange(0, 12).Draw(t, "past") {
			past = append(past, drawEvent(t))
		}
		p, twin := fold(past), fold(past)
		a, b := drawEvent(t), drawEvent(t)
		left := p.Evolve(a)
		right := p.Evolve(b)
		left2 := left.Evolve(b)
		if diff := cmp.Diff(twin, p); diff != "" {
			t.Fatalf("evolving changed the payment it started from:\n%s", diff)
		}
		for name, pair := range map[string][2]domain.Payment{
			"first":  {left, fold(append(slices.Clone(past), a))},
			"second": {right, fold(append(slices.Clone(past), b))},
			"both":   {left2, fold(append(slices.Clone(past), a, b))},
		} {
			if diff := cmp.Diff(pair[1], pair[0]); diff != "" {
				t.Fatalf("%s (-apart +together):\n%s", name, diff)
			}
		}
	})
}

func TestEventsOfOthersDoNotTouchPayments(t *testing.T) {
	t.Parallel()
	p := fold(refunding())
	for _, e := range slices.Concat(installation.Events(), projects.Events()) {
		if diff := cmp.Diff(p, p.Evolve(e.Sample)); diff != "" {
			t.Errorf("%s changed a payment:\n%s", e.Name, diff)
		}
	}
}
