package account

import (
	"errors"
	"io"
	"mime"
	"net/http"

	"github.com/go-json-experiment/json"
)

// Problem is a refusal by the API: its problem document (RFC 9457).
type Problem struct {
	Type          string         `json:"type"`
	Title         string         `json:"title"`
	Status        int            `json:"status"`
	Code          string         `json:"code"`
	Detail        string         `json:"detail"`
	RequestID     string         `json:"request_id"`
	Errors        []FieldProblem `json:"errors"`
	Parameter     string         `json:"parameter"`
	RequiredScope string         `json:"required_scope"`
	PaymentStatus string         `json:"payment_status"`
	RefundID      string         `json:"refund_id"`
	RefundStatus  string         `json:"refund_status"`
	EventID       string         `json:"event_id"`
	Limit         int            `json:"limit"`

	RetryAfter string `json:"-"` // the header, in seconds; "" if there is none
}

// FieldProblem is what is wrong with one field.
type FieldProblem struct {
	Pointer string   `json:"pointer"` // such as #/amount
	Code    string   `json:"code"`
	Detail  string   `json:"detail"`
	Allowed []string `json:"allowed"`
	Minimum string   `json:"minimum"`
	Maximum string   `json:"maximum"`
}

func (p *Problem) Error() string { return p.Code + ": " + p.Detail }

// ReadProblem answers the problem that a response is, nil for one of status
// below 400, whose body it does not touch. A response that is no problem
// document becomes one of code internal_error.
func ReadProblem(r *http.Response) *Problem {
	if r.StatusCode < http.StatusBadRequest {
		return nil
	}
	p := &Problem{Code: "internal_error", Title: http.StatusText(r.StatusCode)}
	if err := readProblem(r, p); err != nil {
		p.Detail = err.Error()
	}
	p.Status, p.RetryAfter = r.StatusCode, r.Header.Get("Retry-After")
	return p
}

func readProblem(r *http.Response, p *Problem) error {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/problem+json" {
		return errors.New("the answer is no problem document")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxAnswer))
	if err != nil {
		return err
	}
	return json.Unmarshal(body, p)
}
