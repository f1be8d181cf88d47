package account

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// ask has the API's routes answer a request of the session, and answers the
// body of a 2xx answer. A refusal is a wire.Problem.
func (v *visit) ask(method, path string, q url.Values, body any) ([]byte, error) {
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
	r, err := http.NewRequestWithContext(v.r.Context(), method, path, content)
	if err != nil {
		return nil, fmt.Errorf("account: %w", err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	res, err := v.Call(v.session, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	if err := readProblem(res); err != nil {
		return nil, err
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

// readProblem is the problem that a response is, nil for one of status below
// 400, whose body it does not touch.
func readProblem(r *http.Response) error {
	if r.StatusCode < http.StatusBadRequest {
		return nil
	}
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != "application/problem+json" {
		return errors.New("the answer is no problem document")
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxAnswer))
	if err != nil {
		return err
	}
	p := wire.Problem{Code: domain.InternalError}
	if err := json.Unmarshal(body, &p); err != nil {
		return err
	}
	if after := r.Header.Get("Retry-After"); after != "" {
		p = p.With("Retry-After", after)
	}
	return p
}

// MaxAnswer is the longest answer to Call, in bytes.
const MaxAnswer = 8 << 20
