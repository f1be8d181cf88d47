package edge

import (
	"cmp"
	"context"
	"errors"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// problems is the table of problems with the address of their pages.
type problems struct {
	base    string // of the program, without a trailing slash
	explain func(error) (wire.Problem, bool)
	rows    map[domain.Code]ProblemRow
}

// newProblems reads the table. explain maps an error of other packages to a problem; nil: it knows
// none.
func newProblems(base string, explain func(error) (wire.Problem, bool)) problems {
	p := problems{base: base, explain: explain, rows: make(map[domain.Code]ProblemRow)}
	for _, r := range ProblemRows() {
		p.rows[r.Code] = r
	}
	return p
}

// of is the one place where an error becomes an answer.
func (t problems) of(err error) wire.Problem {
	p := t.classify(err)
	row, ok := t.rows[p.Code]
	if !ok {
		row = t.rows[domain.InternalError]
		p = wire.Problem{Code: row.Code}
	}
	p.Type = t.base + "/problems/" + string(row.Code)
	p.Title, p.Status = row.Title, row.Status
	p.Detail = cmp.Or(p.Detail, row.detail)
	return p
}

// classify finds the code of an error and what explains it.
func (t problems) classify(err error) wire.Problem {
	var p wire.Problem
	var fields domain.FieldErrors
	var refusal *domain.Refusal
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &fields):
		p = wire.Problem{Code: domain.ValidationFailed}
		for _, f := range fields {
			p.Errors = append(p.Errors, newFieldProblem(f))
		}
		p.Detail = firstDetail(p.Errors)
		return p
	case errors.As(err, &refusal):
		return ofRefusal(refusal)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Unfinished()
	}
	if t.explain != nil {
		if p, known := t.explain(err); known {
			return p
		}
	}
	return wire.Problem{Code: domain.InternalError}
}

// notKnown is the detail of Unfinished, and notRead what is said of requests that only read.
const (
	notKnown = "The server could not finish this in time. Whether it was recorded is not known: " +
		"repeat the request with the same Idempotency-Key, or look the object up."
	notRead = "The server could not finish this in time. Try again; of a list ask for less, by its filters or its time."
)

// Unfinished is the problem of a request that was aborted.
func Unfinished() wire.Problem { return Unavailable("5", notKnown) }

// Unavailable is 503 with the seconds after which to come again.
func Unavailable(retryAfter, detail string) wire.Problem {
	return wire.Problem{Code: domain.Unavailable, Detail: detail}.With("Retry-After", retryAfter)
}

func ofRefusal(r *domain.Refusal) wire.Problem {
	p := wire.Problem{Code: r.Code, PaymentStatus: r.PaymentStatus, RefundStatus: r.RefundStatus}
	if r.RefundID != (domain.ID{}) {
		p.RefundID = r.RefundID.String()
	}
	if r.EventID != (domain.ID{}) {
		p.EventID = r.EventID.String()
	}
	switch {
	case r.Code == domain.WebhookEndpointLimit:
		p.Limit = projects.MaxEndpoints
	case r.Code == domain.PaymentNotPaid && r.PaymentStatus.Final():
		p.Detail = "Only a paid payment can be refunded. This one is " + string(r.PaymentStatus) + " and stays so."
	case r.Code == domain.PaymentNotPaid:
		p.Detail = "Only a paid payment can be refunded. This one is " + string(r.PaymentStatus) + ": wait until it is paid."
	case r.Code == domain.RefundExists:
		p.Detail = "The payment is refunded in full by the refund in refund_id, which is " + string(r.RefundStatus) + "."
	}
	return p
}
