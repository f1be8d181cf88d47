package domain_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func lateFunds() []domain.Event {
	return append(expired(), domain.PaymentLateFunds{Reason: domain.ReasonAfterExpired, Signal: word("paid", "L")})
}

func returnCreated(n byte) domain.ReturnCreated {
	return domain.ReturnCreated{ReturnID: id(n), CreatedAt: graceEnd, Reference: "L", Amount: sum, Currency: "RUB"}
}

func TestLateFundsAreReturned(t *testing.T) {
	t.Parallel()
	create := domain.CreateReturn{At: graceEnd, ReturnID: id(2), Reference: "L"}
	signal := func(o domain.Outcome, reason string) domain.ApplySignal {
		return domain.ApplySignal{Signal: refundWord(o, "R", id(2)), Reason: reason}
	}
	byHand := domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{Reference: "L", RefundReference: "H", Amount: sum, Currency: "RUB"}}
	byHandDone := domain.PaymentRefundedAtProvider{Route: "sandbox", Reference: "L", RefundReference: "H", Amount: sum, Currency: "RUB"}
	ended := func(e domain.Event) []domain.Event { return append(lateFunds(), returnCreated(2), e) }
	succeeded := domain.ReturnSucceeded{ReturnID: id(2), Signal: refundWord("succeeded", "R", id(2))}
	failure := domain.ReturnFailed{ReturnID: id(2), Reason: "card_closed", Signal: refundWord("failed", "R", id(2))}
	for name, c := range map[string]struct {
		given  []domain.Event
		when   domain.PaymentCommand
		want   domain.Event
		reason string
	}{
		"asked for":                     {lateFunds(), create, returnCreated(2), ""},
		"of money that is not there":    {expired(), create, nil, domain.ReturnNothing},
		"of the payment's own money":    {paid(), domain.CreateReturn{At: graceEnd, ReturnID: id(2), Reference: "P"}, nil, domain.ReturnNothing},
		"again while pending":           {append(lateFunds(), returnCreated(3)), create, nil, domain.ReturnExists},
		"again after it came back":      {ended(succeeded), domain.CreateReturn{At: graceEnd, ReturnID: id(3), Reference: "L"}, nil, domain.ReturnExists},
		"again after a failure":         {ended(failure), domain.CreateReturn{At: graceEnd, ReturnID: id(3), Reference: "L"}, returnCreated(3), ""},
		"after the provider's own hand": {append(lateFunds(), byHandDone), create, nil, domain.ReturnElsehow},
		"succeeds":                      {append(lateFunds(), returnCreated(2)), signal("succeeded", ""), succeeded, ""},
		"succeeds twice":                {ended(succeeded), signal("succeeded", ""), nil, ""},
		"fails":                         {append(lateFunds(), returnCreated(2)), signal("failed", "card_closed"), failure, ""},
		"by hand":                       {lateFunds(), byHand, byHandDone, ""},
		"by hand, heard twice":          {append(lateFunds(), byHandDone), byHand, nil, ""},
		"by hand, of money unknown":     {expired(), byHand, nil, domain.RefundOfNobody},
		"by hand, but ours": {ended(succeeded), domain.RecordProviderRefund{
			ProviderRefund: domain.ProviderRefund{Reference: "L", RefundReference: "R", Amount: sum, Currency: "RUB"},
		}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fold(c.given)
			got, err := p.Decide(c.when)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			var refused *domain.AttemptError
			if errors.As(err, &refused) != (c.reason != "") || refused != nil && refused.Reason != c.reason || c.reason == "" && err != nil {
				t.Errorf("%v", err)
			}
			if got != nil && p.Evolve(got).Status != p.Status {
				t.Error("the payment's status moved")
			}
		})
	}
}

func TestARefundFailsWithItsReason(t *testing.T) {
	t.Parallel()
	p := fold(append(paid(), refundCreated(2)))
	got, err := p.Decide(domain.ApplySignal{Signal: refundWord("failed", "R", id(2)), Reason: domain.ReasonRefundedAtProvider})
	want := domain.RefundFailedEvent{RefundID: id(2), Reason: "refunded_at_provider", Signal: refundWord("failed", "R", id(2))}
	if diff := cmp.Diff(domain.Event(want), got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}
