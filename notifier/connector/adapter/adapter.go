// Package adapter connects a route with an adapter: a program in any language
// that the operator runs, and that speaks to a provider. payledger asks four
// calls of it over HTTP, or over NATS (nats.go): begin an attempt, read it, cancel
// it, refund it. openapi.yaml describes them.
//
// An adapter can do no more than any provider: everything that it answers is
// validated, and what it answers of money is judged as a signal.
//
// Calls, answers and notifications are signed with one secret by the rules of
// Standard Webhooks (https://www.standardwebhooks.com). All calls are POST with
// a JSON body that names the call, so that everything that matters is signed.
// The webhook-id of a call is its own, and the answer is signed with the same:
// an answer to another call, or one sent again, is refused. Idempotency keys are
// in the body: the attempt's key, the refund's id.
//
// An answer without a valid signature is ignored, except for 429 and 503 with Retry-After, with
// which a proxy may ask for fewer calls.
//
// The operator sets url, secret_file or secret_env, and during a rotation
// previous_secret_file or previous_secret_env. Then calls have two signatures,
// and answers need one of them.
package adapter

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/client"
)

// OpenAPI describes what an adapter offers.
//
//go:embed openapi.yaml
var OpenAPI []byte

// Config is what an Adapter is made from.
type Config struct {
	URL  string      // of the adapter; see CheckURL
	Keys client.Keys // the newest first
	HTTP *http.Client
	Now  func() time.Time
}

// Adapter is the connector of one adapter. Safe for concurrent use.
type Adapter struct {
	Connector
	c Config
}

// New makes the connector of an adapter.
func New(c Config) *Adapter {
	c.URL = strings.TrimRight(c.URL, "/")
	a := &Adapter{c: c}
	a.Connector = Connector{Transport: a.Exchange}
	return a
}

// Exchange is the Transport: it signs a call, and answers with the body
// of the answer once that is verified.
func (a *Adapter) Exchange(ctx context.Context, call Call, body []byte) ([]byte, error) {
	id, at := "call_"+rand.Text(), a.c.Now()
	header, err := a.c.Keys.Sign(id, at, body)
	if err != nil {
		return nil, err
	}
	header.Set("Content-Type", "application/json")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.c.URL+"/"+string(call), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	resp, err := a.c.HTTP.Do(req)
	if err != nil {
		return nil, fmt.Errorf("calling the adapter: %w", err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, connector.MaxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the adapter's answer: %w", err)
	case len(answer) > connector.MaxAnswer:
		return nil, fmt.Errorf("the adapter's answer has more than %d bytes", connector.MaxAnswer)
	}
	if err := a.verify(resp, id, answer); err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return answer, nil
	}
	if _, err := Decode(answer); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the adapter answered with status %d and no error", resp.StatusCode)
}

// verify checks that an answer is the adapter's, to the call with this id.
func (a *Adapter) verify(resp *http.Response, id string, body []byte) error {
	err := a.c.Keys.Verify(resp.Header, body, a.c.Now())
	if err == nil && resp.Header.Get(client.HeaderID) != id {
		err = errors.New("it answers another call")
	}
	if err == nil {
		return nil
	}
	err = fmt.Errorf("the adapter's answer with status %d does not count: %w", resp.StatusCode, err)
	after := resp.Header.Get("Retry-After")
	if resp.StatusCode == http.StatusTooManyRequests || (resp.StatusCode == http.StatusServiceUnavailable && after != "") {
		// At most 4095; a date, which is rare, leaves the pause to the caller.
		seconds, _ := strconv.ParseUint(after, 10, 12)
		return &connector.BusyError{After: time.Duration(seconds) * time.Second, Err: err}
	}
	return err
}

// notification is the body of a notification.
type notification struct {
	Reference string `json:"reference"`
	Payment   string `json:"payment_id"`
	Refunds   bool   `json:"refunds"`
	Disputes  bool   `json:"disputes"`
	Test      bool   `json:"test"` // it is about nothing
}

// Notices is connector.Connector's: a notification is a signed message that
// names one attempt, or is a test of the way.
func (a *Adapter) Notices(_ context.Context, header http.Header, body []byte) ([]connector.Notice, error) {
	if err := a.c.Keys.Verify(header, body, a.c.Now()); err != nil {
		return nil, fmt.Errorf("%w: %w", connector.ErrForged, err)
	}
	malformed := &connector.RefusedError{Reason: "malformed", Detail: "want a JSON object with reference or payment_id, and perhaps refunds and disputes"}
	var n notification
	if json.Unmarshal(body, &n, json.RejectUnknownMembers(true)) != nil {
		return nil, malformed
	}
	notice := connector.Notice{Reference: n.Reference, Refunds: n.Refunds, Disputes: n.Disputes}
	if n.Payment != "" {
		id, ok := domain.ParseID(n.Payment)
		if !ok || id.IsZero() {
			return nil, malformed
		}
		notice.Payment = id
	}
	if n == (notification{Test: true}) {
		return nil, nil
	}
	if n.Reference == "" && n.Payment == "" || n.Test || len(n.Reference) > domain.MaxReference {
		return nil, malformed
	}
	return []connector.Notice{notice}, nil
}
