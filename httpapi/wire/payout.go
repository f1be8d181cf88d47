package wire

import "payledger/domain"

// Payout is money that the operator has paid to a merchant.
type Payout struct {
	ID        domain.ID       `json:"id"` // of its event
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	Reference string          `json:"reference"`  // of the transfer at the bank
	CreatedAt domain.Instant  `json:"created_at"` // when it was recorded
	Undone    *PayoutUndone   `json:"undone,omitempty"`
}

// PayoutUndone is when and why the operator booked back a payout that was recorded wrongly.
type PayoutUndone struct {
	At     domain.Instant `json:"at"`
	Reason string         `json:"reason"`
	By     string         `json:"by,omitzero"` // who of the operator's, for the operator
}

// OperatorsPayout is a payout to a merchant, or one that came from a provider.
type OperatorsPayout struct {
	Payout
	ProjectID string `json:"project_id,omitzero"` // to whom
	Route     string `json:"route,omitzero"`      // through which it came
	Report    string `json:"report,omitzero"`     // for which it came
}
