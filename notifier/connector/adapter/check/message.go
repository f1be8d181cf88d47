package check

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/client"
)

// message is a call as no route sends it. The zero value of a member is what a
// route would do.
type message struct {
	path    adapter.Call
	body    []byte
	keys    client.Keys
	late    time.Duration // of the timestamp
	altered []byte        // sent in the place of the body that was signed
	bare    bool          // without signature
	leave   bool          // hang up as soon as it is sent
}

type answer struct {
	status int
	header http.Header
	body   []byte
	id     string // of the call
}

// send sends a message and returns the answer, unverified.
func (j *judge) send(m message) (answer, error) {
	ctx, cancel := context.WithTimeout(j.ctx, j.c.CallTime)
	defer cancel()
	if m.leave {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { cancel() }})
	}
	keys, id := j.c.Keys, "check_"+rand.Text()
	if m.keys != nil {
		keys = m.keys
	}
	header, err := keys.Sign(id, j.c.Now().Add(m.late), m.body)
	if err != nil {
		return answer{}, err
	}
	if m.bare {
		header = make(http.Header)
	}
	header.Set("Content-Type", "application/json")
	body := m.body
	if m.altered != nil {
		body = m.altered
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, j.c.URL+"/"+string(m.path), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header = header
	resp, err := j.c.HTTP.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(io.LimitReader(resp.Body, connector.MaxAnswer))
	return answer{resp.StatusCode, resp.Header, got, id}, err
}

// refused checks that a message is answered with an error, of the status if one
// is given, and that the attempt of a is still open after it.
func (j *judge) refused(what string, m message, status int, a connector.Attempt) {
	got, err := j.send(m)
	switch {
	case err != nil:
		fail("%s: %w", what, err)
	case got.status < http.StatusBadRequest || got.status >= http.StatusInternalServerError || status != 0 && got.status != status:
		want := "a status of 400 to 499"
		if status != 0 {
			want = fmt.Sprintf("status %d", status)
		}
		fail("%s is answered with status %d, want %s", what, got.status, want)
	}
	if _, err := j.read(a, connector.Open); err != nil {
		fail("after %s: %w", what, err)
	}
}

// signedAnswer checks an answer's signature.
func (j *judge) signedAnswer(got answer) error {
	if err := j.c.Keys.Verify(got.header, got.body, j.c.Now()); err != nil {
		return err
	}
	if got.header.Get(client.HeaderID) != got.id {
		return errors.New("its webhook-id is not that of the call")
	}
	return nil
}
