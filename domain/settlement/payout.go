package settlement

import (
	"errors"
	"slices"

	"payledger/domain"
)

// Payout is money that a provider has paid to the operator, or the operator to a merchant.
type Payout struct {
	Route     string          `json:"route,omitempty"`  // through which it came; "": to a merchant
	Report    string          `json:"report,omitempty"` // for which it came
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	Reference string          `json:"reference"` // of the transfer at the bank
}

// Payouts are those of a route, or those to the merchant of a project. All has an element for each
// event: the payout, or the zero Payout for one that is undone and for what undid it.
type Payouts struct{ All []Payout }

// PayoutCommand is a command on Payouts.
type PayoutCommand interface {
	decide(Payouts) (domain.Event, error)
}

// RecordPayout records a payout. The same one again changes nothing.
type RecordPayout struct {
	Payout
	// To a merchant: what it was owed at a position of the log, after so many events of the Payouts.
	Owed  domain.Sum
	AsOf  uint64
	After int
}

// UndoPayout books back a payout that was recorded wrongly. Repeated, it changes nothing.
type UndoPayout struct {
	Number int // of its event, from 1
	Reason string
}

// ErrPaidMeanwhile: what was owed was read before another payout to the merchant. Read it again.
var ErrPaidMeanwhile = errors.New("another payout to the merchant was recorded meanwhile")

// Decide returns the event that a command leads to, nil if there is nothing to record. A payout
// that is larger than what is owed is amount_too_large with that as the maximum.
func (p Payouts) Decide(c PayoutCommand) (domain.Event, error) { return c.decide(p) }

func (c RecordPayout) decide(p Payouts) (domain.Event, error) {
	var wrong domain.FieldErrors
	refuse := func(field string, ok bool) {
		if !ok {
			wrong = append(wrong, &domain.FieldError{Field: field, Code: domain.InvalidValue})
		}
	}
	refuse("amount", c.Amount >= domain.MinAmount && c.Amount <= domain.MaxAmount)
	refuse("currency", c.Currency.TwoMinorDigits())
	refuse("reference", c.Reference != "" && validText(c.Reference))
	refuse("route", c.Route == "" || domain.ValidRoute(c.Route))
	refuse("report", (c.Route == "") == (c.Report == "") && (c.Report == "" || ValidReport(c.Report)))
	if len(wrong) > 0 {
		return nil, wrong
	}
	i := slices.IndexFunc(p.All, func(one Payout) bool { return one.Reference == c.Reference })
	switch {
	case i >= 0 && p.All[i] == c.Payout:
		return nil, nil
	case i >= 0:
		return nil, &domain.Refusal{Code: domain.PayoutDiffers}
	case c.Route != "":
		return PayoutArrived(c.Payout), nil
	case c.After != len(p.All):
		return nil, ErrPaidMeanwhile
	case domain.SumOf(c.Amount).Compare(c.Owed) > 0:
		var most domain.Amount
		if c.Owed.Sign() > 0 {
			most = domain.Amount(c.Owed.Lo) // it is below an Amount
		}
		return nil, domain.FieldErrors{{Field: "amount", Code: domain.AmountTooLarge, Max: most}}
	}
	return PayoutToMerchant{Amount: c.Amount, Currency: c.Currency, Reference: c.Reference, AsOf: c.AsOf}, nil
}

func (c UndoPayout) decide(p Payouts) (domain.Event, error) {
	if !validReason(c.Reason) {
		return nil, domain.FieldErrors{{Field: "reason", Code: domain.InvalidValue}}
	}
	if c.Number < 1 || c.Number > len(p.All) {
		return nil, &domain.Refusal{Code: domain.PayoutNotFound}
	}
	was := p.All[c.Number-1]
	if was == (Payout{}) {
		return nil, nil
	}
	return PayoutUndone{Number: c.Number, Was: was, Reason: c.Reason}, nil
}

// Evolve applies an event. Others change nothing.
func (p Payouts) Evolve(e domain.Event) Payouts {
	switch e := e.(type) {
	case PayoutUndone:
		p.All = append(slices.Clone(p.All), Payout{})
		if e.Number >= 1 && e.Number < len(p.All) {
			p.All[e.Number-1] = Payout{}
		}
	case PayoutEvent:
		p.All = append(slices.Clip(p.All), e.Payout())
	}
	return p
}

// Redecide checks an event as domain.Payment.Redecide does. owed is what the merchant was owed at
// the position that the event names.
func (p Payouts) Redecide(e domain.Event, owed domain.Sum) error {
	var c PayoutCommand
	switch e := e.(type) {
	case PayoutArrived:
		c = RecordPayout{Payout: e.Payout()}
	case PayoutToMerchant:
		c = RecordPayout{Payout: e.Payout(), Owed: owed, AsOf: e.AsOf, After: len(p.All)}
	case PayoutUndone:
		c = UndoPayout{e.Number, e.Reason}
	default:
		return errors.New("it is no payout")
	}
	got, err := p.Decide(c)
	return domain.SameEvent(got, err, e, "these payouts", "")
}
