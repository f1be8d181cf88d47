package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"

	"payledger/httpapi/account"
	"payledger/httpapi/edge"

	"github.com/go-json-experiment/json"
)

// The pages of the account are a client in this process. Their requests take
// the same way as those from the network, but for the first step: who asks is
// told by a session, which was authenticated before.

// pageRequest is the request to a page, of which requests inside come.
type pageRequest struct{ ID, remote string }

type pageRequestKey struct{}

// asPage lets a page's requests to the API bear its client and its id.
func asPage(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := pageRequest{remote: r.RemoteAddr}
		if x, ok := w.(*edge.Exchange); ok {
			p.ID = x.ID
		}
		h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), pageRequestKey{}, p)))
	})
}

// inside answers a request of a session.
func (a *api) inside(w http.ResponseWriter, as account.Session, r *http.Request) {
	a.serveInside(w, r, func(x *edge.Exchange) error { return a.m.ResumeAt(x, as.Project, as.KeyID) })
}

// serveInside answers a request from this process once admit has found its
// caller.
func (a *api) serveInside(w http.ResponseWriter, r *http.Request, admit func(*edge.Exchange) error) {
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	page, _ := r.Context().Value(pageRequestKey{}).(pageRequest)
	if page.remote != "" {
		r.RemoteAddr = page.remote
	}
	a.Wrap(func(x *edge.Exchange) {
		x.Inside, x.Page = true, page.ID
		if err := admit(x); err != nil {
			x.Fail(err)
			return
		}
		x.Dispatch(a.inner)
	}).ServeHTTP(w, r)
}

// signIn checks credentials the way every request's are checked.
func (a *api) signIn(r *http.Request, project, key string) (account.Session, error) {
	inner, err := http.NewRequestWithContext(r.Context(), http.MethodGet, accountPath+"/session", http.NoBody)
	if err != nil {
		return account.Session{}, err
	}
	inner.RemoteAddr = r.RemoteAddr
	inner.Header["Authorization"] = []string{"Bearer " + project + ":" + key}
	res, err := answerOf(func(w http.ResponseWriter) { a.serveInside(w, inner, a.m.Authenticate) })
	if err != nil {
		return account.Session{}, err
	}
	defer res.Body.Close()
	if p := account.ReadProblem(res); p != nil {
		return account.Session{}, p
	}
	var s account.Session
	body, err := io.ReadAll(res.Body)
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	return s, err
}

// call answers a request of a session in memory.
func (a *api) call(as account.Session, r *http.Request) (*http.Response, error) {
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

// stream passes the answer to a request of a session on to w as it comes,
// unless it is a refusal.
func (a *api) stream(w http.ResponseWriter, as account.Session, r *http.Request) *http.Response {
	p := passage{ResponseWriter: w, refusal: keeper{header: make(http.Header)}}
	a.inside(&p, as, r)
	if p.passing || p.refusal.status == 0 {
		return nil
	}
	return p.refusal.response()
}

// passage hands an answer on, and keeps a refusal.
type passage struct {
	http.ResponseWriter // of the page
	refusal             keeper
	passing             bool
}

// Header implements http.ResponseWriter.
func (p *passage) Header() http.Header { return p.refusal.header }

// WriteHeader implements http.ResponseWriter. The page's answer keeps the id
// of the page's request.
func (p *passage) WriteHeader(status int) {
	switch {
	case p.passing || p.refusal.status != 0:
	case status >= http.StatusBadRequest:
		p.refusal.WriteHeader(status)
	default:
		p.passing = true
		h := maps.Clone(p.refusal.header)
		h.Del("X-Request-Id")
		maps.Copy(p.ResponseWriter.Header(), h)
		p.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (p *passage) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.passing {
		return p.ResponseWriter.Write(b)
	}
	return p.refusal.Write(b)
}

// Unwrap is for http.ResponseController, which flushes and sets deadlines
// where the answer goes.
func (p *passage) Unwrap() http.ResponseWriter { return p.ResponseWriter }
