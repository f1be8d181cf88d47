package wire

import "payledger/domain"

// The states of money that the operator has to clear.
const (
	SuspenseOpen         = "open"                 // late funds that were not returned
	SuspenseReturnFailed = "return_failed"        // as open, and a return of them has failed
	SuspenseByHand       = "refunded_at_provider" // money that the provider returned by another hand
	SuspenseRest         = "rest"                 // the rest of late funds of which the provider returned a part outside of this ledger
)

// Settle is the request to book money out of suspense.
type Settle struct {
	Reference string          `json:"reference"`
	Currency  domain.Currency `json:"currency,omitempty"` // "": the first that the reference has
	Against   domain.Account  `json:"against"`            // operator or merchant_payable
	Reason    string          `json:"reason"`             // for the auditor
}

// Dispute is the request to record what a provider says of a dispute.
type Dispute struct {
	Outcome       domain.Outcome `json:"outcome"`
	Reference     string         `json:"reference"`
	Amount        domain.Amount  `json:"amount,omitzero"` // 0: what is known, else the payment's
	Reason        string         `json:"reason,omitzero"` // a code
	EvidenceDueBy domain.Instant `json:"evidence_due_by,omitzero"`
}

// Suspense is money that the operator has to clear.
type Suspense struct {
	ProjectID       string          `json:"project_id"`
	PaymentID       domain.ID       `json:"payment_id"`
	Route           string          `json:"route"`
	Reference       string          `json:"reference"` // the provider's, of the attempt that collected the money
	State           string          `json:"state"`
	Reason          string          `json:"reason,omitzero"` // why late funds are late
	Amount          domain.Amount   `json:"amount"`
	Currency        domain.Currency `json:"currency"`
	Since           domain.Instant  `json:"since"`                     // when it was recorded
	ReturnReason    string          `json:"return_reason,omitzero"`    // why the last return failed, if the provider said it
	RefundReference string          `json:"refund_reference,omitzero"` // the provider's id of a refund by another hand
}
