package domain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

// No command leads to these events. Even if a log contains them, they must not move
// a status backward.
func TestEventsThatCannotFollowChangeNothing(t *testing.T) {
	t.Parallel()
	settled := domain.RefundSucceededEvent{RefundID: id(2), Signal: refundWord("succeeded", "R", id(2))}
	sunk := domain.RefundFailedEvent{RefundID: id(2), Signal: refundWord("failed", "R", id(2))}
	other := refundCreated(2)
	other.CreatedAt, other.Amount = graceEnd, 1
	another := paymentCreated()
	another.Amount, another.ExpiresAt = 1, graceEnd
	for name, tt := range map[string]struct {
		given []domain.Event
		then  domain.Event
	}{
		"created twice":               {awaiting(), another},
		"routed twice":                {awaiting(), domain.PaymentRouteAssigned{Route: "bank"}},
		"routed after the end":        {unroutable(), domain.PaymentRouteAssigned{Route: "bank"}},
		"routed before creation":      {missing(), domain.PaymentRouteAssigned{Route: "bank"}},
		"paid without a route":        {created(), domain.PaymentPaid{Signal: word("paid", "X")}},
		"paid after expiry":           {expired(), domain.PaymentPaid{Signal: word("paid", "X")}},
		"expired after payment":       {paid(), domain.PaymentExpired{Reason: domain.ReasonDeadline}},
		"failed after payment":        {paid(), domain.PaymentFailed{Reason: domain.ReasonNoRoute}},
		"failed before creation":      {missing(), domain.PaymentFailed{Reason: domain.ReasonNoRoute}},
		"refund created twice":        {refunding(), other},
		"settled after failure":       {unrefunded(), settled},
		"failed after settlement":     {refunded(), sunk},
		"settled without a refund":    {paid(), settled},
		"failed without a refund":     {paid(), sunk},
		"settled before the creation": {missing(), settled},
	} {
		before := fold(tt.given)
		after := before.Evolve(tt.then)
		after.Signals = before.Signals // what a provider said is kept in any case
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestSlicesAreNotShared evolves one value twice. The capacity of slices grows in
// steps, so it tries each length up to a few steps: at some, append has spare
// capacity and could overwrite an element of the first result.
func TestSlicesAreNotShared(t *testing.T) {
	t.Parallel()
	p := fold(paid())
	for n := byte(10); n < 30; n++ {
		first, second := p.Evolve(refundCreated(n)), p.Evolve(refundCreated(n+100))
		last := len(first.Refunds) - 1
		if first.Refunds[last].ID != id(n) || second.Refunds[last].ID != id(n+100) {
			t.Fatalf("with %d refunds, two payments share one slice", last)
		}
		p = first

		one, two := word("paid", string(rune(n+'A'))), word("paid", string(rune(n+'a')))
		heard, other := p.Evolve(domain.PaymentLateFunds{Signal: one}), p.Evolve(domain.PaymentLateFunds{Signal: two})
		last = len(heard.Signals) - 1
		if heard.Signals[last] != one || other.Signals[last] != two {
			t.Fatalf("with %d signals, two payments share one slice", last)
		}
		p = heard
	}
}
