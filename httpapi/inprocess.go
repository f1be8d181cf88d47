package httpapi

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"payledger/httpapi/account"
	"payledger/httpapi/account/store"
	"payledger/httpapi/edge"
)

// The pages of the account are a client in this process. Their requests take
// the same way as those from the network, but for the first step: who asks is
// told by a session, which was authenticated before.

// inside answers a request of a session.
func (a *api) inside(w http.ResponseWriter, as store.Session, r *http.Request) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	a.Wrap(func(x *edge.Exchange) {
		x.Inside = true
		if err := a.m.ResumeAt(x, as.Project, as.KeyID); err != nil {
			x.Fail(err)
			return
		}
		x.Dispatch(a.inner)
	}).ServeHTTP(w, r)
}

// call answers a request of a session in memory.
func (a *api) call(as store.Session, r *http.Request) (*http.Response, error) {
	return answerOf(func(w http.ResponseWriter) { a.inside(w, as, r) })
}

// answerOf is what serve answers. The error is that it broke off.
func answerOf(serve func(http.ResponseWriter)) (res *http.Response, err error) {
	k := keeper{header: make(http.Header)}
	defer func() {
		if v := recover(); v != nil {
			if v != http.ErrAbortHandler { //nolint:errorlint // identity is its contract
				panic(v)
			}
			res, err = nil, errors.Join(errors.New("the answer broke off"), k.err)
		}
	}()
	serve(&k)
	return k.response(), nil
}

// keeper keeps an answer.
type keeper struct {
	header http.Header
	status int
	body   bytes.Buffer
	err    error
}

// Header implements http.ResponseWriter.
func (k *keeper) Header() http.Header { return k.header }

// WriteHeader implements http.ResponseWriter.
func (k *keeper) WriteHeader(status int) {
	if k.status == 0 {
		k.status = status
	}
}

// Write implements http.ResponseWriter.
func (k *keeper) Write(b []byte) (int, error) {
	k.WriteHeader(http.StatusOK)
	if k.body.Len()+len(b) > account.MaxAnswer {
		k.err = fmt.Errorf("the answer is longer than %d bytes", account.MaxAnswer)
		return 0, k.err
	}
	return k.body.Write(b)
}

// Flush implements http.Flusher: all is kept until the end.
func (k *keeper) Flush() {}

func (k *keeper) response() *http.Response {
	k.WriteHeader(http.StatusOK)
	return &http.Response{
		Status: strconv.Itoa(k.status) + " " + http.StatusText(k.status), StatusCode: k.status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header, Body: io.NopCloser(&k.body), ContentLength: int64(k.body.Len()),
	}
}
