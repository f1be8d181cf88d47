package adapter

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Failure is why a call was not done.
type Failure string

// The failures. Any other is an error after which it is unknown what was done.
const (
	Refused  Failure = "refused"   // it can be done neither now nor later
	SpentKey Failure = "spent_key" // the provider repeats a server error for this key
	Busy     Failure = "busy"      // nothing was done: call less often, or later
	NotFound Failure = "not_found" // there is no attempt of this reference
)

// Answer is the body of every answer: the state of an attempt, the state of a
// refund, or, with Error, why there is none.
type Answer struct {
	Error      Failure `json:"error,omitempty"`
	Detail     string  `json:"detail,omitempty"`      // of an error, for the operator
	RetryAfter int     `json:"retry_after,omitempty"` // of Busy, in seconds

	Reference string          `json:"reference,omitempty"`
	Phase     connector.Phase `json:"phase,omitempty"`
	Reason    string          `json:"reason,omitempty"` // of a closed attempt or refund, or of Refused
	Amount    domain.Amount   `json:"amount,omitzero"`
	Currency  domain.Currency `json:"currency,omitempty"`

	HandOff *domain.HandOff `json:"hand_off,omitempty"` // of an open attempt
	Refunds []Answer        `json:"refunds,omitempty"`  // of an attempt

	Disputes []Dispute `json:"disputes,omitempty"` // of an attempt

	ID        string    `json:"id,omitempty"`        // of a refund; empty: it was made by hand
	CreatedAt time.Time `json:"created_at,omitzero"` // of a refund
}

// Dispute is a connector.DisputeState as JSON.
type Dispute struct {
	Reference     string               `json:"reference"`
	Status        domain.DisputeStatus `json:"status"`
	Reason        string               `json:"reason,omitempty"`
	Amount        domain.Amount        `json:"amount"`
	Currency      domain.Currency      `json:"currency"`
	OpenedAt      time.Time            `json:"opened_at"`
	EvidenceDueBy time.Time            `json:"evidence_due_by,omitzero"`
}

// Decode reads an answer strictly: members that are unknown or there twice are
// errors, and so is invalid UTF-8. Where the answer is a failure the error is
// that of connector.
func Decode(body []byte) (Answer, error) {
	var a Answer
	if err := json.Unmarshal(body, &a, json.RejectUnknownMembers(true)); err != nil {
		return Answer{}, fmt.Errorf("the answer is not the JSON object it should be%s", where(err))
	}
	if a.Error == "" {
		return a, nil
	}
	detail := printable(a.Detail)
	switch a.Error {
	case Refused:
		return a, &connector.RefusedError{Reason: connector.ReasonCode(a.Reason), Detail: detail}
	case SpentKey:
		return a, &connector.SpentKeyError{Err: errors.New(cmp.Or(detail, "the adapter says so"))}
	case Busy:
		after := time.Duration(min(max(a.RetryAfter, 0), maxRetryAfter)) * time.Second
		return a, &connector.BusyError{After: after, Err: errors.New(cmp.Or(detail, "the adapter says so"))}
	case NotFound:
		return a, connector.ErrNotFound
	}
	return a, fmt.Errorf("the answer's error is %q: %s", connector.ReasonCode(string(a.Error)), detail)
}

// maxRetryAfter bounds a pause that a program asks for, in seconds.
const maxRetryAfter = 3600

// where says which member is wrong, without its value.
func where(err error) string {
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.JSONPointer != "" {
		return fmt.Sprintf(": its member %q is wrong or unknown", printable(string(e.JSONPointer)))
	}
	return ""
}

const maxDetail = 200

// printable makes a line for the operator's log of a text from outside.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
	if len(s) > maxDetail {
		s = strings.ToValidUTF8(s[:maxDetail], "")
	}
	return strings.TrimSpace(s)
}

// state validates the state of an attempt.
func (a Answer) state() (connector.State, error) {
	s := connector.State{Reference: a.Reference, Phase: a.Phase}
	if a.ID != "" || !a.CreatedAt.IsZero() {
		return s, errors.New("the answer is the state of a refund: want that of an attempt")
	}
	switch a.Phase {
	case connector.Open:
		if s.HandOff = a.HandOff; s.HandOff != nil {
			if err := connector.ValidHandOff(*s.HandOff); err != nil {
				return s, err
			}
		}
	case connector.Paid:
		s.Amount, s.Currency = a.Amount, a.Currency
		return s, money(a.Reference, a.Amount, a.Currency)
	case connector.Closed:
		s.Reason = connector.ReasonCode(a.Reason)
	default:
		return s, errPhase
	}
	return s, money(a.Reference, domain.MinAmount, domain.DefaultCurrency)
}

// refund validates the state of a refund. One that was refused may have no
// reference.
func (a Answer) refund() (connector.RefundState, error) {
	r := connector.RefundState{Reference: a.Reference, Phase: a.Phase, Amount: a.Amount, Currency: a.Currency}
	if a.HandOff != nil || a.Refunds != nil || a.Disputes != nil {
		return r, errors.New("the answer is the state of an attempt: want that of a refund")
	}
	if a.ID != "" {
		id, ok := domain.ParseID(a.ID)
		if !ok || id.IsZero() {
			return r, errors.New("the id of a refund is none of payledger's")
		}
		r.ID = id
	}
	switch a.Phase {
	case connector.Open, connector.Paid:
	case connector.Closed:
		r.Reason = connector.ReasonCode(a.Reason)
	default:
		return r, errPhase
	}
	reference := a.Reference
	if a.Phase == connector.Closed && a.ID != "" {
		reference = cmp.Or(reference, "none")
	}
	return r, money(reference, a.Amount, a.Currency)
}

// state validates the state of a dispute.
func (d Dispute) state() (connector.DisputeState, error) {
	outcome, ok := map[domain.DisputeStatus]domain.Outcome{
		domain.DisputeOpen: domain.OutcomeDisputed, domain.DisputeWon: domain.OutcomeDisputeWon, domain.DisputeLost: domain.OutcomeDisputeLost,
	}[d.Status]
	s := connector.DisputeState{
		Reference: d.Reference, Outcome: outcome, Reason: d.Reason, Amount: d.Amount, Currency: d.Currency, OpenedAt: d.OpenedAt, EvidenceDueBy: d.EvidenceDueBy,
	}
	switch {
	case !ok:
		return s, errors.New(`the dispute's status is none of "open", "won" and "lost"`)
	case d.OpenedAt.IsZero():
		return s, errors.New("the dispute has no opened_at")
	case d.Reason != "":
		s.Reason = connector.ReasonCode(d.Reason)
	}
	return s, money(d.Reference, d.Amount, d.Currency)
}

var errPhase = errors.New(`the answer's phase is none of "open", "paid" and "closed"`)

// money checks a reference, an amount and a currency by the rules for signals,
// which is what they become.
func money(reference string, amount domain.Amount, currency domain.Currency) error {
	s := domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: reference, Amount: amount, Currency: currency, StartedAt: 1,
	}
	if err := s.Validate(); err != nil {
		return fmt.Errorf("the answer is incomplete or wrong: %w", err)
	}
	return nil
}
