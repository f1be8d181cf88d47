package account

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/httpapi/ui"
)

// request makes a request to the API. One that a form leads to carries the
// form's idempotency key, so that it counts once however often it is made.
func (v *visit) request(ctx context.Context, method, path string, q url.Values, body any) (*http.Request, error) {
	var content io.Reader = http.NoBody
	if body != nil {
		text, err := json.Marshal(body, jsontext.PreserveRawStrings(true))
		if err != nil {
			return nil, fmt.Errorf("account: encoding a request: %w", err)
		}
		content = bytes.NewReader(text)
	}
	if len(q) > 0 {
		path += "?" + q.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, path, content)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if v.token != "" && method == http.MethodPost {
		r.Header.Set("Idempotency-Key", idempotencyKey(v.token))
	}
	return r, nil
}

// idempotencyKey is a UUID that only the sender of one form can know.
func idempotencyKey(token string) string {
	sum := sha256.Sum256([]byte("account form " + token))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// ask answers the body of a 2xx answer of the API. A refusal is a *Problem.
func (v *visit) ask(method, path string, q url.Values, body any) ([]byte, error) {
	r, err := v.request(v.r.Context(), method, path, q, body)
	if err != nil {
		return nil, err
	}
	res, err := v.Call(v.session, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if p := ReadProblem(res); p != nil {
		return nil, p
	}
	return io.ReadAll(res.Body)
}

// get reads an object of the API.
func get[T any](v *visit, path string, q url.Values) (out T, err error) {
	return send[T](v, http.MethodGet, path, q, nil)
}

// post has the API do something. A body of nil is none.
func post[T any](v *visit, path string, body any) (out T, err error) {
	return send[T](v, http.MethodPost, path, nil, body)
}

func send[T any](v *visit, method, path string, q url.Values, body any) (out T, err error) {
	text, err := v.ask(method, path, q, body)
	if err != nil {
		return out, err
	}
	if len(text) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, fmt.Errorf("account: the answer to %s %s: %w", method, path, err)
	}
	return out, nil
}

// stream passes an answer of the API on as it comes. accept is the media type
// that is asked for. A feed ends with the session.
func (v *visit) stream(path string, q url.Values, accept string) error {
	if err := v.saveSession(); err != nil {
		return err
	}
	ctx, cancel := v.streaming()
	defer cancel()
	r, err := v.request(ctx, v.r.Method, path, q, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", accept)
	if last := v.r.Header.Get("Last-Event-Id"); last != "" {
		r.Header.Set("Last-Event-Id", last)
	}
	if res := v.Stream(v.w, v.session, r); res != nil {
		defer res.Body.Close()
		if p := ReadProblem(res); p != nil {
			return p
		}
	}
	return nil
}

// listOf is a page of a list of the API.
type listOf[T any] struct {
	Data []T     `json:"data"`
	Next *string `json:"next_cursor"`
}

// problemText says what a refusal means, in the reader's language where there
// are words for it.
func problemText(l *ui.Locale, p *Problem) string {
	if id := "problem." + p.Code; l.Has(id) {
		return l.T(id)
	}
	if p.Detail != "" {
		return p.Detail
	}
	return p.Title
}

// refuse shows what the API found wrong with a form: fields at their fields,
// by the first segment of the pointer, everything else at the top of the page.
func (d *desk) refuse(p *Problem) {
	d.Fields = make(map[string]string)
	for _, f := range p.Errors {
		name, _, _ := strings.Cut(strings.TrimPrefix(f.Pointer, "#/"), "/")
		if _, ok := d.Fields[name]; !ok {
			d.Fields[name] = fieldText(d.Locale, f)
		}
	}
	if len(p.Errors) == 0 {
		d.Alert = &notice{Tone: "bad", Text: problemText(d.Locale, p)}
	} else {
		d.Alert = &notice{Tone: "bad", Text: d.T("account.check_fields")}
	}
}

func fieldText(l *ui.Locale, f FieldProblem) string {
	if id := "wrong." + f.Code; l.Has(id) {
		return l.T(id, "Max", f.Maximum, "Min", f.Minimum, "Allowed", strings.Join(f.Allowed, ", "))
	}
	return f.Detail
}

func unmarshal(text []byte, into any) error {
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("account: reading an answer: %w", err)
	}
	return nil
}
