package domain_test

import (
	"errors"
	"fmt"
	"slices"
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
	fund := domain.LateFund{Reference: "B", Reason: domain.ReasonAfterExpired, Amount: sum, Currency: "RUB"}
	many := append(lateFunds(), slices.Repeat(lateFunds()[len(lateFunds())-1:], domain.MaxLateFunds-1)...)
	many = slices.Clip(append(many, domain.PaymentLateFunds{Reason: fund.Reason, Signal: word("paid", "B")}))
	beyond := domain.RecordProviderRefund{
		ProviderRefund: domain.ProviderRefund{Reference: "B", RefundReference: "H", Amount: sum - 1, Currency: "RUB"}, Earlier: &fund,
	}
	beyondDone := domain.PaymentRefundedAtProvider{
		Route: "sandbox", Reference: "B", RefundReference: "H", Amount: sum - 1, Currency: "RUB", LateFunds: &fund,
	}
	again, againDone := beyond, beyondDone
	again.RefundReference, again.Amount, againDone.RefundReference, againDone.Amount, againDone.LateFunds = "H2", 1, "H2", 1, nil
	ended := func(e domain.Event) []domain.Event { return append(lateFunds(), returnCreated(2), e) }
	succeeded := domain.ReturnSucceeded{ReturnID: id(2), Signal: refundWord("succeeded", "R", id(2))}
	failure := domain.ReturnFailed{ReturnID: id(2), Reason: "card_closed", Signal: refundWord("failed", "R", id(2))}
	cameBack := domain.ReturnFailed{ReturnID: id(2), Returned: true, Reason: "account_closed", Signal: refundWord("returned", "R", id(2))}
	then := ended(succeeded)
	then = append(then, cameBack)
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
		"again after it succeeded":      {ended(succeeded), domain.CreateReturn{At: graceEnd, ReturnID: id(3), Reference: "L"}, nil, domain.ReturnExists},
		"again after a failure":         {ended(failure), domain.CreateReturn{At: graceEnd, ReturnID: id(3), Reference: "L"}, returnCreated(3), ""},
		"after the provider's own hand": {append(lateFunds(), byHandDone), create, nil, domain.ReturnElsehow},
		"succeeds":                      {append(lateFunds(), returnCreated(2)), signal("succeeded", ""), succeeded, ""},
		"succeeds twice":                {ended(succeeded), signal("succeeded", ""), nil, ""},
		"comes back":                    {ended(succeeded), signal("returned", "account_closed"), cameBack, ""},
		"comes back twice":              {then, signal("returned", "account_closed"), nil, ""},
		"comes back, heard first":       {append(lateFunds(), returnCreated(2)), signal("returned", "account_closed"), domain.ReturnFailed{ReturnID: id(2), Reason: "account_closed", Signal: cameBack.Signal}, ""},
		"comes back after it failed":    {ended(failure), signal("returned", ""), refusedFor(domain.ReasonFinalStatus, cameBack.Signal), ""},
		"fails after it came back":      {then, signal("failed", ""), refusedFor(domain.ReasonFinalStatus, failure.Signal), ""},
		"again after it came back":      {then, domain.CreateReturn{At: graceEnd, ReturnID: id(3), Reference: "L"}, returnCreated(3), ""},
		"again while that is pending":   {append(slices.Clip(then), returnCreated(3)), domain.CreateReturn{At: graceEnd, ReturnID: id(4), Reference: "L"}, nil, domain.ReturnExists},
		"fails":                         {append(lateFunds(), returnCreated(2)), signal("failed", "card_closed"), failure, ""},
		"by hand":                       {lateFunds(), byHand, byHandDone, ""},
		"by hand, heard twice":          {append(lateFunds(), byHandDone), byHand, nil, ""},
		"by hand, of money unknown":     {expired(), byHand, nil, domain.RefundOfNobody},
		"by hand, of money refused": {
			append(awaiting(), domain.PaymentSignalRefused{Reason: domain.ReasonReferenceUsed, Signal: word("paid", "L")}), byHand,
			nil, domain.RefundOfNobody,
		},
		"by hand, of what paid it":     {append(awaiting(), domain.PaymentPaid{Signal: word("paid", "L")}), byHand, byHandDone, ""},
		"by hand, beyond those listed": {many, beyond, beyondDone, ""},
		"by hand, again of them":       {append(many, beyondDone), again, againDone, ""},
		"by hand, as if beyond":        {lateFunds(), beyond, nil, domain.RefundOfNobody},
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

// TestLateFundsBeyondThoseListed: another hand returns some of them, then the rest.
func TestLateFundsBeyondThoseListed(t *testing.T) {
	t.Parallel()
	p := fold(expired())
	for i := range domain.MaxLateFunds + 2 {
		p = p.Evolve(domain.PaymentLateFunds{Reason: domain.ReasonAfterExpired, Signal: word("paid", fmt.Sprint("L", i))})
	}
	fund := domain.LateFund{Reference: "L101", Reason: domain.ReasonAfterExpired, Amount: sum, Currency: "RUB"}
	for i, step := range []struct {
		amount       domain.Amount
		inSuspense   int
		unlistedLate uint64
	}{{sum - 1, domain.MaxLateFunds + 1, 1}, {1, domain.MaxLateFunds, 1}} {
		e, err := p.Decide(domain.RecordProviderRefund{Earlier: &fund, ProviderRefund: domain.ProviderRefund{
			Reference: "L101", RefundReference: fmt.Sprint("H", i), Amount: step.amount, Currency: "RUB",
		}})
		if err != nil {
			t.Fatal(err)
		}
		p = p.Evolve(e)
		if n, unlisted := len(p.InSuspense()), p.LateUnlisted(); n != step.inSuspense || unlisted != step.unlistedLate {
			t.Errorf("step %d: %d in suspense and %d unlisted, want %d and %d", i, n, unlisted, step.inSuspense, step.unlistedLate)
		}
	}
}

// TestTheReferenceThatPaid is that of the money, whatever was refused before: the
// money under that reference is another payment's, or nobody's.
func TestTheReferenceThatPaid(t *testing.T) {
	t.Parallel()
	p := fold(awaiting())
	for _, c := range []domain.ApplySignal{
		{Signal: word("paid", "another's"), ReferenceUsed: true},
		{Signal: with(word("paid", "early"), func(s *domain.Signal) { s.StartedAt = 1 })},
		{Signal: with(word("paid", "less"), func(s *domain.Signal) { s.Amount-- })},
		{Signal: word("paid", "P")},
		{Signal: word("paid", "again")},
	} {
		e, err := p.Decide(c)
		if err != nil || e == nil {
			t.Fatalf("%+v: %v, %v", c.Signal, e, err)
		}
		p = p.Evolve(e)
	}
	if p.Status != domain.Paid || p.PaidReference != "P" {
		t.Errorf("%s by %q", p.Status, p.PaidReference)
	}
}
