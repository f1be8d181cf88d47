package settlement

import "payledger/domain"

// Wire names of events, part of the interface to auditors and subscribers.
const (
	TypePayoutArrived    = "payout.arrived"
	TypePayoutToMerchant = "payout.merchant"
	TypePayoutUndone     = "payout.undone"
)

// PayoutEvent is an event about a payout.
type PayoutEvent interface {
	domain.Event
	Payout() Payout
}

// PayoutArrived records that money of a report has come from the provider.
type PayoutArrived Payout

// Type implements domain.Event.
func (PayoutArrived) Type() string { return TypePayoutArrived }

// Payout is the payout itself.
func (e PayoutArrived) Payout() Payout { return Payout(e) }

// Postings: bank to settlement transit.
func (e PayoutArrived) Postings() []domain.Posting {
	return transfer(domain.Bank, domain.SettlementTransit(e.Route), e.Payout())
}

// PayoutToMerchant records that the operator has paid out what a merchant was owed.
type PayoutToMerchant struct {
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	Reference string          `json:"reference"` // of the transfer at the bank
	AsOf      uint64          `json:"as_of"`     // the position of the log whose books said that it was owed
}

// Type implements domain.Event.
func (PayoutToMerchant) Type() string { return TypePayoutToMerchant }

// Payout is the payout itself.
func (e PayoutToMerchant) Payout() Payout {
	return Payout{Amount: e.Amount, Currency: e.Currency, Reference: e.Reference}
}

// Postings: merchant payable to bank.
func (e PayoutToMerchant) Postings() []domain.Posting {
	return transfer(domain.MerchantPayable, domain.Bank, e.Payout())
}

// PayoutUndone records that a payout was recorded wrongly: no such money has moved.
type PayoutUndone struct {
	Number int    `json:"number"` // of the payout's event in its stream, from 1
	Was    Payout `json:"payout"`
	Reason string `json:"reason"` // the operator's words
}

// Type implements domain.Event.
func (PayoutUndone) Type() string { return TypePayoutUndone }

// Payout is the payout that is undone.
func (e PayoutUndone) Payout() Payout { return e.Was }

// Postings are those of the payout, the other way round.
func (e PayoutUndone) Postings() []domain.Posting {
	if e.Was.Route != "" {
		return transfer(domain.SettlementTransit(e.Was.Route), domain.Bank, e.Was)
	}
	return transfer(domain.Bank, domain.MerchantPayable, e.Was)
}

func transfer(debit, credit domain.Account, p Payout) (all postings) {
	all.add("", debit, p.Currency, domain.SumOf(p.Amount))
	all.add("", credit, p.Currency, domain.SumOf(-p.Amount))
	return all
}
