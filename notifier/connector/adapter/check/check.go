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
	HTTP     *http.Client // that follows no redirects
	Now      func() time.Time
	Amount   domain.Amount // of each attempt
	Currency domain.Currency
	CallTime time.Duration // that an answer may take
}

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
		switch err := try(func() { one.judge(j) }); {
		case errors.Is(err, errNoHook):
			r.Verdict, r.Detail = Skipped, err.Error()
		case err != nil:
			r.Verdict, r.Detail = Failed, err.Error()
		}
		report(r)
	}
}

// failure is what a case ends with at the first thing that is wrong.
type failure struct{ error }

// must is the value of a call that has to succeed for the case to go on.
func must[T any](v T, err error) T {
	if err != nil {
		panic(failure{err})
	}
	return v
}

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// try is why fn failed, nil if it did not.
func try(fn func()) (err error) {
	defer func() {
		switch broken := recover().(type) {
		case nil:
		case failure:
			err = broken.error
		default:
			panic(broken)
		}
	}()
	fn()
	return nil
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
	payment, now := j.ids.Next(), domain.InstantOf(j.c.Now())
	return connector.Attempt{
		Project: "prj_check", Payment: payment, Number: 1, Key: payment.String() + "-1", Amount: j.c.Amount, Currency: j.c.Currency,
		BegunAt: now, ExpiresAt: now.Add(time.Hour), ReturnURL: "https://payledger.example.com/p/check?returned=1",
		Language: "en", Merchant: "Check of an adapter",
	}
}

func (j *judge) refundOf(a connector.Attempt) connector.Refund {
	return connector.Refund{ID: j.ids.Next(), Attempt: a, Amount: a.Amount, Currency: a.Currency, AskedAt: domain.InstantOf(j.c.Now())}
}

type call func(context.Context, connector.Attempt) (connector.State, error)

// within makes a call that may take CallTime.
func within[T any](j *judge, name adapter.Call, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	got, err := do(ctx)
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return got, err
}

// state makes a call and expects an attempt in one of the phases.
func (j *judge) state(name adapter.Call, do call, a connector.Attempt, want ...connector.Phase) (connector.State, error) {
	s, err := within(j, name, func(ctx context.Context) (connector.State, error) { return do(ctx, a) })
	if err == nil && !slices.Contains(want, s.Phase) {
		err = fmt.Errorf("%s answers %s, want %s", name, s.Phase, want)
	}
	return s, err
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
func (j *judge) begun() connector.Attempt {
	a := j.attempt()
	a.Reference = must(j.begin(a, connector.Open)).Reference
	return a
}

// paid is a new attempt that the adapter lets its customer pay.
func (j *judge) paid() connector.Attempt {
	a := j.begun()
	j.play(a, adapter.Paid)
	if s := must(j.read(a, connector.Paid)); s.Amount != a.Amount || s.Currency != a.Currency {
		fail("%s %s was asked for and paid, and read answers %s %s", a.Amount, a.Currency, s.Amount, s.Currency)
	}
	return a
}

// encoded is the body of a call about an attempt.
func encoded(call adapter.Call, a connector.Attempt) []byte {
	return must(adapter.Encode(call, a, nil, ""))
}

// play makes the adapter's customer act.
func (j *judge) play(a connector.Attempt, outcome adapter.Outcome) {
	got, err := j.send(message{path: adapter.Test, body: must(adapter.Encode(adapter.Test, a, nil, outcome))})
	switch {
	case err != nil:
		fail("test: %w", err)
	case got.status == http.StatusNotFound, got.status == http.StatusMethodNotAllowed,
		outcome != adapter.Paid && outcome != adapter.Declined && got.status >= http.StatusBadRequest && got.status < http.StatusInternalServerError:
		panic(failure{errNoHook})
	case got.status != http.StatusOK:
		fail("test answers with status %d", got.status)
	}
}

func (j *judge) refund(r connector.Refund) connector.RefundState {
	return must(within(j, adapter.Refund, func(ctx context.Context) (connector.RefundState, error) { return j.adapter.Refund(ctx, r) }))
}

func (j *judge) disputes(a connector.Attempt) []connector.DisputeState {
	return must(within(j, adapter.Read, func(ctx context.Context) ([]connector.DisputeState, error) { return j.adapter.Disputes(ctx, a) }))
}

func (j *judge) refunds(a connector.Attempt) []connector.RefundState {
	return must(within(j, adapter.Read, func(ctx context.Context) ([]connector.RefundState, error) { return j.adapter.Refunds(ctx, a) }))
}
