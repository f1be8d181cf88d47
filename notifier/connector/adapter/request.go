package adapter

import (
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Call names what is asked of the program.
type Call string

// The calls. Test is used only by the check of an adapter, never by a route.
const (
	Begin  Call = "begin"
	Read   Call = "read"
	Cancel Call = "cancel"
	Refund Call = "refund"
	Test   Call = "test"
)

// Request is the body of a call. The call's name is part of it, so that where it
// is signed, a call cannot be passed off as another.
type Request struct {
	Call    Call           `json:"call"`
	Attempt Attempt        `json:"attempt"`
	Refund  *RefundRequest `json:"refund,omitempty"`  // of Refund
	Outcome Outcome        `json:"outcome,omitempty"` // of Test
}

// Attempt is a connector.Attempt as JSON.
type Attempt struct {
	Key       string          `json:"key"`
	Project   string          `json:"project_id"`
	Payment   domain.ID       `json:"payment_id"`
	Number    int             `json:"number"`
	Reference string          `json:"reference,omitempty"`
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	BegunAt   domain.Instant  `json:"begun_at"`
	ExpiresAt domain.Instant  `json:"expires_at"`
	ReturnURL string          `json:"return_url"`
	Language  string          `json:"language"`
	Merchant  string          `json:"merchant"`
	Receipt   jsontext.Value  `json:"receipt,omitempty"`
}

// RefundRequest is the request about a refund, besides the attempt whose money it is.
type RefundRequest struct {
	ID        domain.ID       `json:"id"`
	Reference string          `json:"reference,omitempty"`
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	AskedAt   domain.Instant  `json:"asked_at"`
}

// Outcome is what Test makes of an attempt that waits for its customer, or of the refund of a paid
// one.
type Outcome string

// The outcomes.
const (
	Paid     Outcome = "paid"
	Declined Outcome = "declined"
	Returned Outcome = "returned" // the refund's money came back

	Disputed    Outcome = "disputed" // the customer has the bank take the money back
	DisputeWon  Outcome = "dispute_won"
	DisputeLost Outcome = "dispute_lost"
)

// Encode writes the body of a call. of is the refund asked for, else nil.
func Encode(call Call, a connector.Attempt, of *connector.Refund, outcome Outcome) ([]byte, error) {
	r := Request{Call: call, Outcome: outcome, Attempt: Attempt{
		Key: a.Key, Project: a.Project, Payment: a.Payment, Number: a.Number, Reference: a.Reference, Amount: a.Amount, Currency: a.Currency,
		BegunAt: instant(a.BegunAt), ExpiresAt: instant(a.ExpiresAt), ReturnURL: a.ReturnURL, Language: a.Language, Merchant: a.Merchant,
		Receipt: a.Receipt,
	}}
	if of != nil {
		r.Refund = &RefundRequest{ID: of.ID, Reference: of.Reference, Amount: of.Amount, Currency: of.Currency, AskedAt: instant(of.AskedAt)}
	}
	return json.Marshal(r)
}

func instant(t time.Time) domain.Instant { return domain.InstantOf(t) }
