package yookassa

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/notifier/connector"
)

// client makes the calls to the API. Its errors hold neither bodies nor secrets.
type client struct {
	http   *http.Client
	base   string
	shopID string
	key    string
}

// errProcessing: the request was taken and is not finished.
var errProcessing = errors.New("YooKassa is still processing the request")

// answerError is an answer that is no object: what YooKassa calls an error. The
// description is left out, since it can repeat what was sent.
type answerError struct {
	status    int
	code      string // as invalid_request
	parameter string // of the request, where one is wrong
	id        string // to be reported to YooKassa's support
}

func (e *answerError) Error() string {
	text := fmt.Sprintf("YooKassa answered %d %s", e.status, e.code)
	if e.parameter != "" {
		text += ", parameter " + e.parameter
	}
	if e.id != "" {
		text += ", error id " + e.id
	}
	return text
}

// refusal reports whether nothing was done and no repetition can change that.
func (e *answerError) refusal() bool {
	return e.status == http.StatusBadRequest || e.status == http.StatusNotFound
}

// keyUsed reports whether the key has been used with another request.
func (e *answerError) keyUsed() bool {
	return e.status == http.StatusBadRequest && strings.EqualFold(e.parameter, "Idempotence-Key")
}

// reason is the refusal as a code: for known parts of a request what is wrong,
// else YooKassa's code with the parameter's name.
func (e *answerError) reason() string {
	part, _, _ := strings.Cut(e.parameter, ".")
	switch {
	case e.parameter == "amount.currency":
		return "currency_not_accepted"
	case part == "amount":
		return "amount_not_accepted"
	case part == "receipt":
		return "receipt_not_accepted"
	}
	return connector.ReasonCode(e.code + "_" + e.parameter)
}

func (c client) get(ctx context.Context, path string, answer any) error {
	return c.call(ctx, http.MethodGet, path, "", nil, answer)
}

// post sends a request that is done once for each key.
func (c client) post(ctx context.Context, path, key string, request, answer any) error {
	return c.call(ctx, http.MethodPost, path, key, request, answer)
}

func (c client) call(ctx context.Context, method, path, key string, request, answer any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request, json.Deterministic(true)); err != nil {
			return fmt.Errorf("encoding a request: %w", err)
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	req.SetBasicAuth(c.shopID, c.key)
	if request != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotence-Key", key)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("calling YooKassa: %w", err)
	}
	defer res.Body.Close()
	content, err := io.ReadAll(io.LimitReader(res.Body, connector.MaxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("reading YooKassa's answer: %w", err)
	case len(content) > connector.MaxAnswer:
		return fmt.Errorf("YooKassa's answer is longer than %d bytes", connector.MaxAnswer)
	case res.StatusCode == http.StatusAccepted:
		return errProcessing
	case res.StatusCode != http.StatusOK:
		return failure(res, content)
	}
	if err := json.Unmarshal(content, answer); err != nil {
		// Not err: it can quote the answer.
		return fmt.Errorf("YooKassa's answer to %s %s cannot be read", method, path)
	}
	return nil
}

// failure is the error that an answer says.
func failure(res *http.Response, content []byte) error {
	var body struct {
		ID         string  `json:"id"`
		Code       string  `json:"code"`
		Parameter  string  `json:"parameter"`
		RetryAfter float64 `json:"retry_after"` // milliseconds
	}
	if json.Unmarshal(content, &body) != nil {
		body.ID, body.Code, body.Parameter, body.RetryAfter = "", "", "", 0
	}
	err := &answerError{status: res.StatusCode, code: plain(body.Code), parameter: plain(body.Parameter), id: plain(body.ID)}
	after := retryAfter(res.Header.Get("Retry-After"), body.RetryAfter)
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode == http.StatusServiceUnavailable && after > 0 {
		return &connector.BusyError{After: after, Err: err}
	}
	return err
}

// maxRetryAfter is the longest pause that is believed.
const maxRetryAfter = time.Hour

// retryAfter is how long YooKassa asks to wait: the header in seconds, or the
// body's member in milliseconds. 0: it does not say.
func retryAfter(header string, milliseconds float64) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds >= 0 {
		return min(time.Duration(min(seconds, 3600))*time.Second, maxRetryAfter)
	}
	return time.Duration(min(max(milliseconds, 0), float64(maxRetryAfter/time.Millisecond))) * time.Millisecond
}

// plain reduces a text of YooKassa's to what may be logged: names and ids.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("_-.[]", r):
			return r
		}
		return -1
	}, s[:min(len(s), 64)])
}
