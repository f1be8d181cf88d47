package httpapi

import (
	"context"
	"errors"
	"maps"
	"net/http"

	"payledger/domain"
)

// problem is an answer of RFC 9457, and the error that becomes one. Code is
// enough: the rest is filled in from the table of problems. Nothing in it
// repeats what the client sent.
type problem struct {
	Type      string      `json:"type"`
	Title     string      `json:"title"`
	Status    int         `json:"status"`
	Code      domain.Code `json:"code"`
	Detail    string      `json:"detail"`
	RequestID string      `json:"request_id"`

	Errors        []fieldProblem       `json:"errors,omitempty"`         // validation_failed
	Parameter     string               `json:"parameter,omitempty"`      // invalid_parameter
	RequiredScope domain.Scope         `json:"required_scope,omitempty"` // scope_missing
	PaymentStatus domain.PaymentStatus `json:"payment_status,omitempty"` // payment_not_paid, final_status
	RefundID      string               `json:"refund_id,omitempty"`      // refund_exists
	RefundStatus  domain.RefundStatus  `json:"refund_status,omitempty"`  // refund_exists, final_status
	Members       []string             `json:"members,omitempty"`        // idempotency_key_reused
	EventID       string               `json:"event_id,omitempty"`       // delivery_superseded
	Limit         int                  `json:"limit,omitzero"`           // webhook_endpoint_limit

	header http.Header
	alarm  bool // recorded as an error whatever the status
}

func (p problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}

// with adds a header to the answer.
func (p problem) with(name, value string) problem {
	p.header = maps.Clone(p.header)
	if p.header == nil {
		p.header = make(http.Header, 1)
	}
	p.header.Set(name, value)
	return p
}

// problems is the table of problems with the address their pages stand at.
type problems struct {
	base    string // of the program, without a trailing slash
	explain func(error) (problem, bool)
	rows    map[domain.Code]problemRow
	fields  map[domain.Code]problemRow
}

// newProblems reads the table. explain names the problem that an error of the
// rooms behind the edge amounts to; nil: none is known.
func newProblems(base string, explain func(error) (problem, bool)) problems {
	p := problems{base: base, explain: explain, rows: make(map[domain.Code]problemRow), fields: make(map[domain.Code]problemRow)}
	for _, r := range problemRows() {
		p.rows[r.code] = r
	}
	for _, r := range fieldRows() {
		p.fields[r.code] = r
	}
	return p
}

// of is the one place where an error becomes an answer.
func (t problems) of(err error) problem {
	p := t.classify(err)
	row, ok := t.rows[p.Code]
	if !ok {
		row = t.rows[domain.InternalError]
		p = problem{Code: row.code}
	}
	p.Type = t.base + "/problems/" + string(row.code)
	p.Title, p.Status = row.title, row.status
	if p.Detail == "" {
		p.Detail = row.detail
	}
	return p
}

// classify finds the code of an error and what explains it.
func (t problems) classify(err error) problem {
	var p problem
	var fields domain.FieldErrors
	var refusal *domain.Refusal
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &fields):
		p = problem{Code: domain.ValidationFailed}
		for _, f := range fields {
			p.Errors = append(p.Errors, newFieldProblem(f))
		}
		return p
	case errors.As(err, &refusal):
		return ofRefusal(refusal)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return unfinished()
	}
	if t.explain != nil {
		if p, known := t.explain(err); known {
			return p
		}
	}
	return problem{Code: domain.InternalError}
}

// unfinished says that a request was given up in the middle.
func unfinished() problem {
	return unavailable("5", "The server could not finish this in time. Whether it was recorded is not known: "+
		"repeat the request with the same Idempotency-Key, or look the object up.")
}

func unavailable(retryAfter, detail string) problem {
	return problem{Code: domain.Unavailable, Detail: detail}.with("Retry-After", retryAfter)
}

func ofRefusal(r *domain.Refusal) problem {
	p := problem{Code: r.Code, PaymentStatus: r.PaymentStatus, RefundStatus: r.RefundStatus}
	if r.RefundID != (domain.ID{}) {
		p.RefundID = r.RefundID.String()
	}
	if r.EventID != (domain.ID{}) {
		p.EventID = r.EventID.String()
	}
	switch {
	case r.Code == domain.WebhookEndpointLimit:
		p.Limit = domain.MaxEndpoints
	case r.Code == domain.PaymentNotPaid && r.PaymentStatus.Final():
		p.Detail = "Only a paid payment can be refunded. This one is " + string(r.PaymentStatus) + " and stays so."
	case r.Code == domain.PaymentNotPaid:
		p.Detail = "Only a paid payment can be refunded. This one is " + string(r.PaymentStatus) + ": wait until it is paid."
	case r.Code == domain.RefundExists:
		p.Detail = "The payment is refunded in full by the refund in refund_id, which is " + string(r.RefundStatus) + "."
	}
	return p
}
