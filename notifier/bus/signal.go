package bus

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"

	"payledger/domain"
)

// ReplyHeader names the subject on which the enforcer answers a signal.
const ReplyHeader = "Payledger-Reply"

// MaxSignal is the largest signal message, header and body, in bytes.
const MaxSignal = 16 << 10

// SignalSubject is where signals about a payment are published by the connector of
// a route.
func SignalSubject(route, project string, payment domain.ID) string {
	return SignalsPrefix + route + "." + project + "." + payment.String()
}

// body is the JSON of a signal. The route is the subject's, so that a sender can signal only for
// the route of its permissions.
type body struct {
	Outcome   domain.Outcome  `json:"outcome"`
	Reference string          `json:"reference"`
	RefundID  *string         `json:"refund_id,omitempty"`
	Amount    domain.Amount   `json:"amount"`
	Currency  domain.Currency `json:"currency"`
	StartedAt domain.Instant  `json:"started_at,omitzero"`
	Reason    string          `json:"reason,omitempty"`

	EvidenceDueBy domain.Instant `json:"evidence_due_by,omitzero"`
}

// Said is what a provider says with a signal, for people.
type Said struct {
	Reason        string         // why a refund failed or came back, or a payment is disputed; "" if that is not known
	EvidenceDueBy domain.Instant // until when the merchant can answer a dispute; 0: unknown
}

// EncodeSignal writes the body of a signal.
func EncodeSignal(s domain.Signal, said Said) ([]byte, error) {
	b := body{
		Outcome: s.Outcome, Reference: s.Reference, Amount: s.Amount, Currency: s.Currency, StartedAt: s.StartedAt,
		Reason: said.Reason, EvidenceDueBy: said.EvidenceDueBy,
	}
	if s.RefundID != nil {
		id := s.RefundID.String()
		b.RefundID = &id
	}
	return json.Marshal(b)
}

// DecodeSignal reads the body of a signal that came through a route, strictly:
// unknown and duplicate members, names in another case, invalid UTF-8 and ids
// in any but their canonical spelling are errors. The signal has passed
// Validate.
func DecodeSignal(route string, data []byte) (s domain.Signal, said Said, err error) {
	var b body
	if err := json.Unmarshal(data, &b, json.RejectUnknownMembers(true)); err != nil {
		return domain.Signal{}, Said{}, fmt.Errorf("the signal is not the JSON object it should be: %w", err)
	}
	s = domain.Signal{
		Route: route, Outcome: b.Outcome, Reference: b.Reference, Amount: b.Amount, Currency: b.Currency, StartedAt: b.StartedAt,
	}
	if b.RefundID != nil {
		id, ok := domain.ParseID(*b.RefundID)
		if !ok {
			return domain.Signal{}, Said{}, errors.New("refund_id is not an id: want 26 characters of Crockford base 32 in upper case")
		}
		s.RefundID = &id
	}
	if err := s.Validate(); err != nil {
		return domain.Signal{}, Said{}, fmt.Errorf("the signal is incomplete: %w", err)
	}
	said = Said{Reason: b.Reason, EvidenceDueBy: b.EvidenceDueBy}
	switch {
	case said.EvidenceDueBy != 0 && s.Outcome != domain.OutcomeDisputed:
		return domain.Signal{}, Said{}, errors.New("evidence_due_by is only for a dispute that is opened")
	case b.Reason == "":
	case s.Outcome != domain.OutcomeDisputed && (s.RefundID == nil || s.Outcome == domain.OutcomeSucceeded):
		return domain.Signal{}, Said{}, errors.New("reason is only for a refund that failed or came back, and for a dispute")
	case !domain.ValidReason(b.Reason):
		return domain.Signal{}, Said{}, fmt.Errorf("reason is not a code: want 1 to %d of a-z, 0-9 and _", domain.MaxReason)
	}
	return s, said, nil
}
