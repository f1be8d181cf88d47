package wire

import (
	"maps"
	"net/http"

	"payledger/domain"
	"payledger/domain/projects"
)

// Problem is an answer of RFC 9457, and the error that becomes one. Code is
// enough: the rest is filled in from the table of problems. Nothing in it
// repeats what the client sent.
type Problem struct {
	Type      string      `json:"type"`
	Title     string      `json:"title"`
	Status    int         `json:"status"`
	Code      domain.Code `json:"code"`
	Detail    string      `json:"detail"`
	RequestID string      `json:"request_id"`

	Errors        []FieldProblem       `json:"errors,omitempty"`         // validation_failed
	Parameter     string               `json:"parameter,omitempty"`      // invalid_parameter
	Nearest       string               `json:"nearest,omitempty"`        // invalid_parameter: the known name that was probably meant
	Allowed       []string             `json:"allowed,omitempty"`        // invalid_parameter: the known names; method_not_allowed: the methods
	RequiredScope projects.Scope       `json:"required_scope,omitempty"` // scope_missing
	PaymentStatus domain.PaymentStatus `json:"payment_status,omitempty"` // payment_not_paid, final_status
	RefundID      string               `json:"refund_id,omitempty"`      // refund_exists
	RefundStatus  domain.RefundStatus  `json:"refund_status,omitempty"`  // refund_exists, final_status
	Members       []string             `json:"members,omitempty"`        // idempotency_key_reused
	EventID       string               `json:"event_id,omitempty"`       // delivery_superseded
	Limit         int                  `json:"limit,omitzero"`           // webhook_endpoint_limit

	Header http.Header `json:"-"` // of the answer, besides those of every answer
	Alarm  bool        `json:"-"` // logged as an error regardless of the answer's status
}

// FieldProblem is what is wrong with one field of a body.
type FieldProblem struct {
	Pointer string      `json:"pointer"` // JSON pointer as a URI fragment
	Code    domain.Code `json:"code"`
	Detail  string      `json:"detail"`

	Allowed        []string `json:"allowed,omitempty"` // values; of unknown_field: names
	Nearest        string   `json:"nearest,omitempty"` // unknown_field: the name that was probably meant
	Minimum        string   `json:"minimum,omitempty"`
	Maximum        string   `json:"maximum,omitempty"`
	LimitBytes     int      `json:"limit_bytes,omitzero"`
	GotBytes       int      `json:"got_bytes,omitzero"`
	LimitCharacter int      `json:"limit_characters,omitzero"`
	GotCharacters  int      `json:"got_characters,omitzero"`
}

func (p Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}

// With adds a header to the answer.
func (p Problem) With(name, value string) Problem {
	p.Header = maps.Clone(p.Header)
	if p.Header == nil {
		p.Header = make(http.Header, 1)
	}
	p.Header.Set(name, value)
	return p
}
