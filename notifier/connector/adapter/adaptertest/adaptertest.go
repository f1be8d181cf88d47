// Package adaptertest is an adapter under the control of a test: the reference
// adapter, behind a layer of faults.
package adaptertest

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/adaptertest/reference"
	"payledger/notifier/connector/client"
	"payledger/notifier/connector/connectortest"
)

// Secret is the one that every Provider signs with.
const Secret = "whsec_YWRhcHRlcnRlc3QgYWRhcHRlcnRlc3QgYWRhcHRlcnQ="

// Page is the public address of its page, to which hand-offs lead. A browser
// reaches it when the name is mapped to URL.
const Page = "https://pay.adapter.example"

// Provider is an adapter with its provider, as connectortest.Provider has it. It
// is the http.Handler of the calls and of the page.
type Provider struct {
	connectortest.Faults

	URL    string // where it listens; see Start
	Client *http.Client
	Keys   client.Keys

	adapter *reference.Adapter

	mu    sync.Mutex
	spent map[string]bool // keys whose answer is a stored error
	wrong bool            // new attempts collect another amount
	sent  []connectortest.Notification
}

var _ connectortest.Provider = (*Provider)(nil)

// New makes an adapter that does not listen.
func New() *Provider {
	keys, err := client.NewKeys(Secret)
	if err != nil {
		panic(err) // the constant is wrong
	}
	p := &Provider{Keys: keys, Client: http.DefaultClient, spent: make(map[string]bool)}
	p.adapter = &reference.Adapter{
		Secret: keys[0], Page: Page, TestMode: true, Slow: true, Changed: func(ref string) { p.notify(ref, false) },
	}
	return p
}

// Start makes an adapter that listens on loopback until the test ends.
func Start(t testing.TB) *Provider {
	t.Helper()
	p := New()
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	p.URL, p.Client = server.URL, server.Client()
	return p
}

// Connector is connectortest.Provider's.
func (p *Provider) Connector() connector.Connector {
	return adapter.New(adapter.Config{URL: p.URL, Keys: p.Keys, HTTP: p.Client, Now: time.Now})
}

// ServeHTTP answers a call, or ends it as the test wants.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/pay/") {
		p.adapter.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	if err != nil {
		http.Error(w, "too large", http.StatusRequestEntityTooLarge)
		return
	}
	var c adapter.Request
	_ = json.Unmarshal(body, &c) // the adapter says what is wrong with it
	fault, spent := p.next(c)
	switch {
	case spent:
		p.fail(w, r, http.StatusConflict, `{"error":"spent_key"}`)
		return
	case fault == connectortest.Down:
		panic(http.ErrAbortHandler)
	case fault == connectortest.ErrorBefore, fault == connectortest.StoredError:
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	case fault == connectortest.Busy:
		p.fail(w, r, http.StatusTooManyRequests, `{"error":"busy","retry_after":1}`)
		return
	}

	begun := c.Call == adapter.Begin && len(p.Attempts(c.Attempt.Payment)) == 0
	r.Body = io.NopCloser(bytes.NewReader(body))
	done := httptest.NewRecorder()
	p.adapter.ServeHTTP(done, r)
	p.after(c, begun)

	switch fault {
	case connectortest.ErrorAfter:
		http.Error(w, "internal error", http.StatusInternalServerError)
	case connectortest.Garbage:
		_, _ = io.WriteString(w, "<html>")
	case connectortest.Endless:
		for _, err := w.Write(nil); err == nil && r.Context().Err() == nil; {
			_, err = w.Write(bytes.Repeat([]byte(" "), 4<<10))
		}
	case connectortest.Silent:
		<-r.Context().Done()
	default:
		maps.Copy(w.Header(), done.Header())
		w.WriteHeader(done.Code)
		_, _ = w.Write(done.Body.Bytes())
	}
}

// next says how a call ends.
func (p *Provider) next(c adapter.Request) (f connectortest.Fault, spent bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := c.Attempt.Key
	if c.Refund != nil {
		key = c.Refund.ID.String()
	}
	keyed := c.Call == adapter.Begin || c.Call == adapter.Refund
	if keyed && p.spent[key] {
		return 0, true
	}
	f = p.Next(keyed)
	if f != 0 {
		p.spent[key] = f == connectortest.StoredError
	}
	return f, false
}

// after does what the reference adapter does not: it collects another amount, and
// notifies of refunds.
func (p *Provider) after(c adapter.Request, begun bool) {
	p.mu.Lock()
	wrong := p.wrong
	p.mu.Unlock()
	if begun && wrong {
		for _, ref := range p.Attempts(c.Attempt.Payment) {
			p.adapter.Change(ref, func(at *reference.State) bool {
				at.Amount = "1.23"
				return false
			})
		}
	}
	if c.Call == adapter.Refund {
		p.notify(c.Attempt.Reference, true)
	}
}

// fail answers with a signed failure.
func (p *Provider) fail(w http.ResponseWriter, r *http.Request, status int, body string) {
	header, err := p.Keys.Sign(r.Header.Get(client.HeaderID), time.Now(), []byte(body))
	if err != nil {
		panic(err)
	}
	maps.Copy(w.Header(), header)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}
