package domain

import (
	"slices"
	"unicode/utf8"
)

// Settlement is money that the operator has booked out of suspense, because the provider no longer
// holds it: it was returned by other means, say, or the merchant's money was returned outside of
// this ledger.
type Settlement struct {
	Reference string   `json:"reference"` // of the money at the provider
	Debit     Account  `json:"debit"`
	Credit    Account  `json:"credit"`
	Amount    Amount   `json:"amount"`
	Currency  Currency `json:"currency"`
	Reason    string   `json:"reason"` // the operator's words
}

// MaxSettleReason is the longest reason of a settlement, in code points.
const MaxSettleReason = 256

// InSuspense is what lies in suspense of the money of one reference.
type InSuspense struct {
	Reference string
	Amount    Amount
	Currency  Currency
	// Out: the money has left, returned outside of this ledger; else it has arrived, and is still
	// owed.
	Out bool
}

// InSuspense lists what lies in suspense, in the order in which it came. Late funds
// beyond MaxLateFunds are only counted: see LateUnlisted.
func (p Payment) InSuspense() []InSuspense {
	var all []InSuspense
	add := func(reference string, currency Currency, amount Amount) {
		i := slices.IndexFunc(all, func(s InSuspense) bool { return s.Reference == reference && s.Currency == currency })
		if i < 0 {
			i, all = len(all), append(all, InSuspense{Reference: reference, Currency: currency})
		}
		all[i].Amount += amount
	}
	for _, f := range p.Late {
		add(f.Reference, f.Currency, f.Amount)
	}
	for _, r := range p.Returns {
		// Those that are not listed were returned as a whole.
		if _, listed := p.LateFund(r.Reference); listed && r.Holds() {
			add(r.Reference, r.Currency, -r.Amount)
		}
	}
	for _, r := range p.ProviderRefunds {
		add(r.Reference, r.Currency, -r.Amount)
	}
	for _, s := range p.Settlements {
		if s.Debit == Suspense {
			add(s.Reference, s.Currency, -s.Amount)
		} else {
			add(s.Reference, s.Currency, s.Amount)
		}
	}
	all = slices.DeleteFunc(all, func(s InSuspense) bool { return s.Amount == 0 })
	for i, s := range all {
		all[i].Amount, all[i].Out = max(s.Amount, -s.Amount), s.Amount < 0
	}
	return all
}

// LateUnlisted is how many late funds beyond MaxLateFunds await the operator.
func (p Payment) LateUnlisted() uint64 {
	n := p.LateFunds - min(p.LateFunds, uint64(len(p.Late)))
	for _, r := range p.Returns {
		if _, listed := p.LateFund(r.Reference); !listed && r.Holds() && n > 0 {
			n--
		}
	}
	return n
}

// AwaitsOperator reports whether money of the payment is the operator's to clear.
func (p Payment) AwaitsOperator() bool { return p.LateUnlisted() > 0 || len(p.InSuspense()) > 0 }

// SettleSuspense books what lies in suspense of the money of a reference out to an
// account: Operator or MerchantPayable. Repeated, it does nothing.
type SettleSuspense struct {
	Reference string
	Currency  Currency // "": the first that the reference has
	Against   Account
	Reason    string
	Earlier   *LateFund // as in CreateReturn
}

// The reasons why nothing is settled, in an AttemptError.
const (
	SettleNothing     = "nothing_in_suspense"
	SettleNotMerchant = "not_the_merchants" // the merchant has not got this money, or has refunded it
)

func (c SettleSuspense) decidePayment(p Payment) (Event, error) {
	if n := utf8.RuneCountInString(c.Reason); n == 0 || n > MaxSettleReason || !utf8.ValidString(c.Reason) || HasControl(c.Reason) {
		return nil, FieldErrors{{Field: "reason", Code: InvalidValue}}
	}
	if c.Against != Operator && c.Against != MerchantPayable {
		return nil, FieldErrors{{Field: "against", Code: InvalidValue}}
	}
	all := p.InSuspense()
	if f := p.unlisted(c.Reference, c.Earlier); f != nil {
		if _, back := p.ReturnOf(f.Reference); !back {
			all = append(all, InSuspense{Reference: f.Reference, Amount: f.Amount, Currency: f.Currency})
		}
	}
	i := slices.IndexFunc(all, func(s InSuspense) bool {
		return s.Reference == c.Reference && (c.Currency == "" || s.Currency == c.Currency)
	})
	if i < 0 {
		if s, ok := p.Settled(c.Reference); ok && s.Reason == c.Reason && (s.Debit == c.Against || s.Credit == c.Against) {
			return nil, nil
		}
		return nil, &AttemptError{Reason: SettleNothing}
	}
	s := all[i]
	e := Settlement{Reference: s.Reference, Debit: Suspense, Credit: c.Against, Amount: min(s.Amount, MaxAmount), Currency: s.Currency, Reason: c.Reason}
	if s.Out {
		e.Debit, e.Credit = c.Against, Suspense
		if c.Against == MerchantPayable && !p.merchantHas(e) {
			return nil, &AttemptError{Reason: SettleNotMerchant}
		}
	}
	return PaymentSuspenseSettled(e), nil
}

// merchantHas reports whether the merchant still has the money that a settlement
// takes: it paid the payment, and no refund of the merchant's and no dispute has taken it.
func (p Payment) merchantHas(e Settlement) bool {
	left := p.Amount - p.Disputed()
	for _, s := range p.Settlements {
		if s.Reference == e.Reference && s.Debit == MerchantPayable {
			left -= s.Amount
		}
	}
	return e.Reference == p.PaidReference && e.Currency == p.Currency && e.Amount <= left &&
		!slices.ContainsFunc(p.Refunds, Refund.Holds)
}

// Settled is the last settlement of a reference.
func (p Payment) Settled(reference string) (Settlement, bool) {
	for _, s := range slices.Backward(p.Settlements) {
		if s.Reference == reference {
			return s, true
		}
	}
	return Settlement{}, false
}
