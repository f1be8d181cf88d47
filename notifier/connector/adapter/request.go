package adapter

import (
	"github.com/go-json-experiment/json"

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
	Call    Call              `json:"call"`
	Attempt connector.Attempt `json:"attempt"`
	Refund  *connector.Refund `json:"refund,omitempty"`  // of Refund
	Outcome Outcome           `json:"outcome,omitempty"` // of Test
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
	return json.Marshal(Request{Call: call, Attempt: a, Refund: of, Outcome: outcome})
}
