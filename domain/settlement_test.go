package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func settledAs(reference string, debit, credit domain.Account, amount domain.Amount) domain.PaymentSuspenseSettled {
	return domain.PaymentSuspenseSettled{
		Reference: reference, Debit: debit, Credit: credit, Amount: amount, Currency: "RUB", Reason: "as agreed",
	}
}

func byHand(reference, refund string, amount domain.Amount) domain.PaymentRefundedAtProvider {
	return domain.PaymentRefundedAtProvider{Route: "sandbox", Reference: reference, RefundReference: refund, Amount: amount, Currency: "RUB"}
}

func TestMoneyInSuspenseIsSettled(t *testing.T) {
	t.Parallel()
	settle := func(reference string, against domain.Account) domain.SettleSuspense {
		return domain.SettleSuspense{Reference: reference, Against: against, Reason: "as agreed"}
	}
	merchant, operator, suspense := domain.MerchantPayable, domain.Operator, domain.Suspense
	then := func(given []domain.Event, more ...domain.Event) []domain.Event {
		return append(slices.Clip(given), more...)
	}
	refundFailed := domain.RefundFailedEvent{RefundID: id(2), Reason: domain.ReasonRefundedAtProvider, Signal: refundWord("failed", "R", id(2))}
	dollars := byHand("P", "H2", 7)
	dollars.Currency = "USD"
	inDollars := settledAs("P", operator, suspense, 7)
	inDollars.Currency = "USD"
	for name, c := range map[string]struct {
		given  []domain.Event
		when   domain.SettleSuspense
		want   domain.Event
		reason string
		left   bool // the operator has still something to do after it
	}{
		"by hand, the merchant's":              {then(paid(), byHand("P", "H", sum)), settle("P", merchant), settledAs("P", merchant, suspense, sum), "", false},
		"by hand, the operator's":              {then(paid(), byHand("P", "H", sum)), settle("P", operator), settledAs("P", operator, suspense, sum), "", false},
		"by hand, a part":                      {then(paid(), byHand("P", "H", 40)), settle("P", merchant), settledAs("P", merchant, suspense, 40), "", false},
		"by hand, in crumbs":                   {then(paid(), byHand("P", "H", 40), byHand("P", "H2", 2)), settle("P", merchant), settledAs("P", merchant, suspense, 42), "", false},
		"by hand, after the merchant's failed": {then(paid(), refundCreated(2), byHand("P", "H", sum), refundFailed), settle("P", merchant), settledAs("P", merchant, suspense, sum), "", false},
		"by hand, while a refund is pending":   {then(paid(), refundCreated(2), byHand("P", "H", sum)), settle("P", merchant), nil, domain.SettleNotMerchant, true},
		"returned twice, the operator's": {
			then(paid(), refundCreated(2), domain.RefundSucceededEvent{RefundID: id(2), Signal: refundWord("succeeded", "R", id(2))}, byHand("P", "H", sum)),
			settle("P", operator), settledAs("P", operator, suspense, sum), "", false,
		},
		"more by hand than there was": {then(paid(), byHand("P", "H", sum+1)), settle("P", merchant), nil, domain.SettleNotMerchant, true},
		"more by hand than is left":   {then(paid(), byHand("P", "H", sum), settledAs("P", merchant, suspense, sum), byHand("P", "H2", 1)), settle("P", merchant), nil, domain.SettleNotMerchant, true},
		"in two currencies, the first": {
			then(paid(), byHand("P", "H", sum), dollars),
			settle("P", merchant), settledAs("P", merchant, suspense, sum), "", true,
		},
		"in two currencies, the other": {
			then(paid(), byHand("P", "H", sum), dollars),
			domain.SettleSuspense{Reference: "P", Currency: "USD", Against: operator, Reason: "as agreed"},
			inDollars, "", true,
		},
		"late funds, the operator's":             {lateFunds(), settle("L", operator), settledAs("L", suspense, operator, sum), "", false},
		"late funds, the merchant's":             {lateFunds(), settle("L", merchant), settledAs("L", suspense, merchant, sum), "", false},
		"late funds, what is left":               {then(lateFunds(), byHand("L", "H", 40)), settle("L", operator), settledAs("L", suspense, operator, sum-40), "", false},
		"late funds, too much returned":          {then(lateFunds(), byHand("L", "H", sum+2)), settle("L", operator), settledAs("L", operator, suspense, 2), "", false},
		"late funds, too much of the merchant's": {then(lateFunds(), byHand("L", "H", sum+2)), settle("L", merchant), nil, domain.SettleNotMerchant, true},
		"late funds, returned by hand":           {then(lateFunds(), byHand("L", "H", sum)), settle("L", operator), nil, domain.SettleNothing, false},
		"late funds, being returned":             {then(lateFunds(), returnCreated(2)), settle("L", operator), nil, domain.SettleNothing, false},
		"late funds whose return came back": {
			then(lateFunds(), returnCreated(2), domain.ReturnSucceeded{ReturnID: id(2), Signal: refundWord("succeeded", "R", id(2))},
				domain.ReturnFailed{ReturnID: id(2), Returned: true, Signal: refundWord("returned", "R", id(2))}),
			settle("L", operator), settledAs("L", suspense, operator, sum), "", false,
		},
		"late funds whose return has failed": {
			then(lateFunds(), returnCreated(2), domain.ReturnFailed{ReturnID: id(2), Signal: refundWord("failed", "R", id(2))}),
			settle("L", operator), settledAs("L", suspense, operator, sum), "", false,
		},
		"again":                        {then(lateFunds(), settledAs("L", suspense, operator, sum)), settle("L", operator), nil, "", false},
		"again, in another way":        {then(lateFunds(), settledAs("L", suspense, operator, sum)), settle("L", merchant), nil, domain.SettleNothing, false},
		"what is paid":                 {paid(), settle("P", operator), nil, domain.SettleNothing, false},
		"a reference unknown":          {lateFunds(), settle("X", operator), nil, domain.SettleNothing, true},
		"a currency that is not there": {lateFunds(), domain.SettleSuspense{Reference: "L", Currency: "USD", Against: operator, Reason: "as agreed"}, nil, domain.SettleNothing, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := fold(c.given)
			got, err := p.Decide(c.when)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			refused, ok := errors.AsType[*domain.AttemptError](err)
			if ok != (c.reason != "") || ok && refused.Reason != c.reason || !ok && err != nil {
				t.Errorf("%v", err)
			}
			if got != nil {
				if err := p.Redecide(got, domain.Recorded{Version: 1}); err != nil {
					t.Error(err)
				}
				after := p.Evolve(got)
				if after.Status != p.Status {
					t.Error("the payment's status moved")
				}
				p = after
			}
			if p.AwaitsOperator() != c.left {
				t.Errorf("in suspense: %+v", p.InSuspense())
			}
		})
	}
}

func TestSettlementsNeedAReasonAndAnAccount(t *testing.T) {
	t.Parallel()
	p := fold(lateFunds())
	for field, all := range map[string][]domain.SettleSuspense{
		"reason":  {{Against: domain.Operator}, {Against: domain.Operator, Reason: "a\nb"}, {Against: domain.Operator, Reason: strings.Repeat("я", 257)}, {Against: domain.Operator, Reason: "\xff"}},
		"against": {{Reason: "x"}, {Reason: "x", Against: domain.Suspense}, {Reason: "x", Against: domain.RefundsInFlight}, {Reason: "x", Against: domain.AcquirerReceivable("sandbox")}},
	} {
		for _, c := range all {
			c.Reference = "L"
			e, err := p.Decide(c)
			if wrong, ok := errors.AsType[domain.FieldErrors](err); e != nil || !ok || wrong[0].Field != field {
				t.Errorf("%+v: %v, %v", c, e, err)
			}
		}
	}
	impossible := settledAs("L", domain.MerchantPayable, domain.Operator, sum)
	if err := p.Redecide(impossible, domain.Recorded{Version: 1}); err == nil {
		t.Error("money is settled past suspense")
	}
	if _, err := p.Evolve(settledAs("L", domain.Suspense, domain.Operator, sum)).Decide(domain.CreateReturn{Reference: "L", ReturnID: id(2)}); err == nil {
		t.Error("what was settled is returned")
	}
}

// TestLateFundsBeyondTheListedAreSettled: those that a payment does not list are settled as the others.
func TestLateFundsBeyondTheListedAreSettled(t *testing.T) {
	t.Parallel()
	p := fold(awaiting())
	for n := range domain.MaxLateFunds + 2 {
		p = p.Evolve(domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: lateMoney(n)})
	}
	of := func(n int) domain.SettleSuspense {
		s := lateMoney(n)
		return domain.SettleSuspense{
			Reference: s.Reference, Against: domain.Operator, Reason: "as agreed", Earlier: &domain.LateFund{Reference: s.Reference, Amount: s.Amount, Currency: s.Currency},
		}
	}
	returned, err := p.Decide(domain.CreateReturn{At: graceEnd, ReturnID: domain.ID{1}, Reference: lateMoney(domain.MaxLateFunds).Reference, Earlier: of(domain.MaxLateFunds).Earlier})
	if err != nil {
		t.Fatal(err)
	}
	p = p.Evolve(returned)
	if e, err := p.Decide(of(domain.MaxLateFunds)); err == nil {
		t.Errorf("what is being returned is settled: %+v", e)
	}
	last := of(domain.MaxLateFunds + 1)
	e, err := p.Decide(last)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Redecide(e, domain.Recorded{Version: 1}); err != nil {
		t.Error(err)
	}
	p = p.Evolve(e)
	if again, err := p.Decide(last); again != nil || err != nil || p.LateUnlisted() != 0 || len(p.InSuspense()) != domain.MaxLateFunds {
		t.Errorf("%v, %v, %d unlisted, %d in suspense", again, err, p.LateUnlisted(), len(p.InSuspense()))
	}
	if err := p.Redecide(e, domain.Recorded{Version: 1}); err == nil {
		t.Error("it is settled twice")
	}
}

// TestLateFundsBeyondTheListed: 150 late funds, of which the payment lists 100. Each
// of the others is returned once, and the operator is done when all are.
func TestLateFundsBeyondTheListed(t *testing.T) {
	t.Parallel()
	const all = 150
	p := fold(awaiting())
	for n := range all {
		p = p.Evolve(domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: lateMoney(n)})
	}
	if len(p.Late) != domain.MaxLateFunds || p.LateUnlisted() != all-domain.MaxLateFunds {
		t.Fatalf("%d listed, %d not", len(p.Late), p.LateUnlisted())
	}
	for n := range all {
		s := lateMoney(n)
		c := domain.CreateReturn{At: graceEnd, ReturnID: domain.ID{1, byte(n)}, Reference: s.Reference}
		if n >= domain.MaxLateFunds {
			if _, err := p.Decide(c); err == nil {
				t.Fatalf("%s: returned unknown", s.Reference)
			}
			c.Earlier = &domain.LateFund{Reference: "another", Amount: s.Amount, Currency: s.Currency}
			if _, err := p.Decide(c); err == nil {
				t.Fatalf("%s: returned as another", s.Reference)
			}
			c.Earlier.Reference = s.Reference
		}
		e, err := p.Decide(c)
		want := domain.ReturnCreated{ReturnID: c.ReturnID, CreatedAt: graceEnd, Reference: s.Reference, Amount: s.Amount, Currency: s.Currency}
		if diff := cmp.Diff(domain.Event(want), e); diff != "" || err != nil {
			t.Fatal(diff, err)
		}
		p = p.Evolve(e)
		c.ReturnID[2]++
		if _, err := p.Decide(c); err == nil {
			t.Fatalf("%s: returned twice", s.Reference)
		}
		word := refundWord("succeeded", fmt.Sprint("R", n), want.ReturnID)
		word.Amount = s.Amount
		if e, err = p.Decide(domain.ApplySignal{Signal: word}); err != nil {
			t.Fatal(err)
		}
		p = p.Evolve(e)
		if p.AwaitsOperator() != (n < all-1) {
			t.Fatalf("after %d: %d not listed, %+v", n+1, p.LateUnlisted(), p.InSuspense())
		}
	}
	other := domain.CreateReturn{At: graceEnd, ReturnID: id(9), Reference: "X", Earlier: &domain.LateFund{Reference: "X", Amount: 1, Currency: "RUB"}}
	if _, err := fold(lateFunds()).Decide(other); err == nil {
		t.Error("a payment that lists all has others")
	}
}
