package stripe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"payledger/notifier/connector"
)

// newClient makes Stripe's client. It repeats nothing by itself, logs nothing and
// sends no telemetry.
func newClient(with *http.Client, key, base string) *api.Client {
	limited := *with
	limited.Transport = limit{with.Transport}
	config := &api.BackendConfig{
		EnableTelemetry:   new(false),
		HTTPClient:        &limited,
		LeveledLogger:     &api.LeveledLogger{Level: api.LevelNull},
		MaxNetworkRetries: new(int64(0)),
	}
	if base != "" {
		config.URL = api.String(base)
	}
	return api.NewClient(key, api.WithBackends(api.NewBackendsWithConfig(config)))
}

// answer is what came back for one request. stripe-go's own errors hold parts of
// bodies, so they are not passed on.
type answer struct {
	status   int   // 0: none came
	reading  error // why its body could not be read
	replayed bool  // Stripe repeats what it has answered to this key before
	after    time.Duration
}

type answerKey struct{}

// noting makes a context for one request, whose answer is noted.
func noting(ctx context.Context) (context.Context, *answer) {
	a := &answer{}
	return context.WithValue(ctx, answerKey{}, a), a
}

// limit reads at most connector.MaxAnswer bytes of each answer, and notes it.
type limit struct{ base http.RoundTripper }

func (l limit) RoundTrip(r *http.Request) (*http.Response, error) {
	base := l.base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a, ok := r.Context().Value(answerKey{}).(*answer)
	if !ok {
		a = &answer{}
	}
	a.status = resp.StatusCode
	a.replayed = resp.Header.Get("Idempotent-Replayed") == "true"
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		a.after = time.Duration(seconds) * time.Second
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: connector.MaxAnswer, answer: a}
	return resp, nil
}

type limitedBody struct {
	io.ReadCloser
	left   int
	answer *answer
}

var errTooLong = fmt.Errorf("the answer is longer than %d bytes", connector.MaxAnswer)

func (b *limitedBody) Read(p []byte) (int, error) {
	if len(p) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		err = errTooLong
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.answer.reading = err
	}
	return n, err
}

// failure says how a request has failed; nil if it has not. It holds nothing of
// the answer but codes and Stripe's name of the request, by which the operator
// finds it in Stripe's log.
func (a *answer) failure(doing string, err error) error {
	refused, _ := errors.AsType[*api.Error](err)
	switch {
	case err == nil && a.status < http.StatusMultipleChoices:
		return nil
	case a.status == 0:
		return fmt.Errorf("%s at Stripe: %w", doing, err)
	case a.reading != nil:
		return fmt.Errorf("%s at Stripe: reading its answer: %w", doing, a.reading)
	case a.status == http.StatusTooManyRequests, a.status == http.StatusServiceUnavailable && a.after > 0:
		return &connector.BusyError{After: a.after, Err: fmt.Errorf("%s at Stripe: HTTP %d", doing, a.status)}
	case refused == nil:
		return fmt.Errorf("%s at Stripe: HTTP %d, with an answer that is not its own", doing, a.status)
	case a.status == http.StatusNotFound && refused.Code == api.ErrorCodeResourceMissing:
		return connector.ErrNotFound
	}
	return &apiError{doing: doing, status: a.status, replayed: a.replayed, answer: refused}
}

// apiError is an error that Stripe answers.
type apiError struct {
	doing    string
	status   int
	replayed bool
	answer   *api.Error
}

func (e *apiError) Error() string {
	s := fmt.Sprintf("%s at Stripe: HTTP %d, %s", e.doing, e.status, e.reason())
	if e.answer.Param != "" {
		s += fmt.Sprintf(", parameter %.64q", e.answer.Param)
	}
	if e.answer.RequestID != "" {
		s += fmt.Sprintf(", request %.64q", e.answer.RequestID)
	}
	return s
}

// reason is Stripe's code of the error, or else its type.
func (e *apiError) reason() string {
	switch {
	case e.answer.Code != "":
		return connector.ReasonCode(string(e.answer.Code))
	case e.answer.Type != "":
		return connector.ReasonCode(string(e.answer.Type))
	}
	return connector.ReasonCode(strconv.Itoa(e.status))
}

// spent: the key answers an old server error forever, or was used with other parameters.
func (e *apiError) spent() bool {
	return e.replayed && e.status >= http.StatusInternalServerError || e.answer.Type == api.ErrorTypeIdempotency && e.status == http.StatusBadRequest
}

// refused: what was asked for cannot be done. Other errors are of the API key, of
// requests at the same time, or of Stripe.
func (e *apiError) refused() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusPaymentRequired
}
