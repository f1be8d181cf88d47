// Package check judges an adapter from outside, case by case, by the rules of openapi.yaml. It
// begins attempts, so the adapter should be connected with its provider's test mode. The cases are
// in cases.go.
package check

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/client"
)

// Config says which adapter is judged, and with what.
type Config struct {
	URL      string
	Keys     client.Keys  // one
	HTTP     *http.Client // without time limits and redirects
	Now      func() time.Time
	Amount   domain.Amount // of each attempt
	Currency domain.Currency
	CallTime time.Duration // that an answer may take; DefaultCallTime is what routes give
}

// DefaultCallTime is how long an engine waits for one answer.
const DefaultCallTime = 2 * time.Second

// Verdict is how a case ended.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Failed  Verdict = "failed"
	Skipped Verdict = "skipped"
)

// Result is the verdict on one case.
type Result struct {
	Name    string  `json:"name"`
	Rule    string  `json:"rule"`
	Verdict Verdict `json:"verdict"`
	Detail  string  `json:"detail,omitempty"` // why it failed or was skipped
}

// Run judges the adapter and reports each result once it is known. It ends early with the context.
func Run(ctx context.Context, c Config, report func(Result)) {
	j := &judge{c: c, ctx: ctx, ids: domain.NewIDs(c.Now, rand.Reader, domain.ID{})}
	j.adapter = adapter.New(adapter.Config{URL: c.URL, Keys: c.Keys, HTTP: c.HTTP, Now: c.Now})
	for _, one := range cases() {
		if ctx.Err() != nil {
			return
		}
		r := Result{Name: one.name, Rule: one.rule, Verdict: OK}
		switch err := one.judge(j); {
		case errors.Is(err, errNoHook):
			r.Verdict, r.Detail = Skipped, err.Error()
		case err != nil:
			r.Verdict, r.Detail = Failed, err.Error()
		}
		report(r)
	}
}

// judge is what the cases use.
type judge struct {
	c       Config
	ctx     context.Context // of the whole check
	ids     *domain.IDs
	adapter *adapter.Adapter
}

// errNoHook: the adapter cannot play the customer, or the bank that sends a refund back.
var errNoHook = errors.New("the adapter does not offer /test, or not this outcome")

// attempt is a new attempt of a new payment.
func (j *judge) attempt() connector.Attempt {
	payment, now := j.ids.Next(), j.c.Now()
	return connector.Attempt{
		Project: "prj_check", Payment: payment, Number: 1, Key: payment.String() + "-1", Amount: j.c.Amount, Currency: j.c.Currency,
		BegunAt: now, ExpiresAt: now.Add(time.Hour), ReturnURL: "https://payledger.example.com/p/check?returned=1",
		Language: "en", Merchant: "Check of an adapter",
	}
}

func (j *judge) refundOf(a connector.Attempt) connector.Refund {
	return connector.Refund{ID: j.ids.Next(), Attempt: a, Amount: a.Amount, Currency: a.Currency, AskedAt: j.c.Now()}
}

type call func(context.Context, connector.Attempt) (connector.State, error)

// state makes a call and expects an attempt in one of the phases.
func (j *judge) state(name adapter.Call, do call, a connector.Attempt, want ...connector.Phase) (connector.State, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	s, err := do(ctx, a)
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if slices.Contains(want, s.Phase) {
		return s, nil
	}
	return s, fmt.Errorf("%s answers %s, want %s", name, s.Phase, want)
}

func (j *judge) begin(a connector.Attempt, want ...connector.Phase) (connector.State, error) {
	return j.state(adapter.Begin, j.adapter.Begin, a, want...)
}

func (j *judge) read(a connector.Attempt, want ...connector.Phase) (connector.State, error) {
	return j.state(adapter.Read, j.adapter.Read, a, want...)
}

func (j *judge) cancel(a connector.Attempt, want ...connector.Phase) (connector.State, error) {
	return j.state(adapter.Cancel, j.adapter.Cancel, a, want...)
}

// begun is a new attempt that waits for its customer.
func (j *judge) begun() (connector.Attempt, error) {
	a := j.attempt()
	s, err := j.begin(a, connector.Open)
	a.Reference = s.Reference
	return a, err
}

// paid is a new attempt that the adapter lets its customer pay.
func (j *judge) paid() (connector.Attempt, error) {
	a, err := j.begun()
	if err != nil {
		return a, err
	}
	if err := j.play(a, adapter.Paid); err != nil {
		return a, err
	}
	s, err := j.read(a, connector.Paid)
	if err == nil && (s.Amount != a.Amount || s.Currency != a.Currency) {
		err = fmt.Errorf("%s %s was asked for and paid, and read answers %s %s", a.Amount, a.Currency, s.Amount, s.Currency)
	}
	return a, err
}

// play makes the adapter's customer act.
func (j *judge) play(a connector.Attempt, outcome adapter.Outcome) error {
	body, err := adapter.Encode(adapter.Test, a, nil, outcome)
	if err != nil {
		return err
	}
	got, err := j.send(message{path: adapter.Test, body: body})
	switch {
	case err != nil:
		return fmt.Errorf("test: %w", err)
	case got.status == http.StatusNotFound, got.status == http.StatusMethodNotAllowed,
		outcome != adapter.Paid && outcome != adapter.Declined && got.status >= http.StatusBadRequest && got.status < http.StatusInternalServerError:
		return errNoHook
	case got.status != http.StatusOK:
		return fmt.Errorf("test answers with status %d", got.status)
	}
	return nil
}

func (j *judge) refund(r connector.Refund) (connector.RefundState, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	s, err := j.adapter.Refund(ctx, r)
	if err != nil {
		return s, fmt.Errorf("refund: %w", err)
	}
	return s, nil
}

func (j *judge) disputes(a connector.Attempt) ([]connector.DisputeState, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	all, err := j.adapter.Disputes(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return all, nil
}

func (j *judge) refunds(a connector.Attempt) ([]connector.RefundState, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	all, err := j.adapter.Refunds(ctx, a)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return all, nil
}
