package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"payledger/notifier/connector/adapter/adaptertest"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/stripe/stripetest"
	"payledger/notifier/connector/yookassa/yookassatest"
)

// played is a simulated provider, with the addresses at which a server and its
// customers reach it.
type played struct {
	connectortest.Provider

	line     *line
	keeps    bool     // it cancels no attempt that nobody has paid
	collects int      // which call of those after the customer has paid collects the money
	settings string   // the connector's object of the routes file
	env      []string // with the provider's secrets
	pages    string   // address of the customers' pages, which are served with TLS
	host     string   // public name in the URLs of the pages
	// press is the form that a button of the customers' page sends: the suffix of
	// the page's path, and the body.
	press func(button string) (path string, form url.Values)
}

// providers has one provider of each type. Each starts a provider that ends with the
// test.
func providers() map[string]func(testing.TB) *played {
	return map[string]func(testing.TB) *played{
		"stripe": playStripe,
		"yookassa": func(t testing.TB) *played {
			return playYooKassa(t, yookassatest.Options{Pages: "https://yookassa.test.example"})
		},
		"http": playAdapter,
	}
}

// provider starts one of them, for tests that have a function for each: they wait most
// of the time, and subtests would all run last.
func provider(t testing.TB, name string) *played {
	t.Helper()
	all := providers()
	if len(all) != 3 {
		t.Error("a provider has no test like this one")
	}
	return all[name](t)
}

func playStripe(t testing.TB) *played {
	t.Helper()
	s := stripetest.Start(t)
	l := newLine(t, s)
	s.API = l.URL
	return &played{
		Provider: s, line: l, env: []string{"STRIPE_KEY=" + s.Key, "STRIPE_SECRET=" + s.Secret},
		settings: strings.Replace(s.Settings("STRIPE_KEY", "STRIPE_SECRET"), `{`, `{"type":"stripe",`, 1),
		pages:    s.Checkout, host: stripetest.CheckoutHost,
		press: func(button string) (string, url.Values) { return "/" + button, url.Values{} },
	}
}

func playYooKassa(t testing.TB, o yookassatest.Options) *played {
	t.Helper()
	f := yookassatest.Start(t, o)
	l := newLine(t, f)
	return &played{
		Provider: f, line: l, keeps: true, collects: 1, env: []string{"YOOKASSA_SECRET_KEY=" + yookassatest.SecretKey},
		settings: strings.Replace(f.Settings(), f.URL(), l.URL, 1), pages: customersPages(t, f), host: "yookassa.test.example",
		press: func(button string) (string, url.Values) { return "", url.Values{"action": {button}} },
	}
}

func playAdapter(t testing.TB) *played {
	t.Helper()
	a := adaptertest.Start(t)
	l := newLine(t, a)
	return &played{
		Provider: a, line: l, env: []string{"ADAPTER_SECRET=" + adaptertest.Secret},
		settings: fmt.Sprintf(`{"type":"http","url":%q,"secret_env":"ADAPTER_SECRET"}`, l.URL),
		pages:    customersPages(t, a), host: strings.TrimPrefix(adaptertest.Page, "https://"),
		press: func(button string) (string, url.Values) { return "", url.Values{button: {"1"}} },
	}
}

// customersPages serves a provider's pages with TLS.
func customersPages(t testing.TB, pages http.Handler) (address string) {
	t.Helper()
	s := httptest.NewTLSServer(pages)
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// line carries the connector's calls. It can cut one of them.
type line struct {
	*httptest.Server
	provider http.Handler

	mu    sync.Mutex
	heard int    // calls
	calls int    // until the one that is cut
	at    moment // when it is cut
	cut   func() // nil: none is cut
}

// moment is when a call is cut.
type moment string

const (
	beforeCall  moment = "before the provider hears of a call"
	beforeReply moment = "before the provider replies"
	afterReply  moment = "after the provider's reply"
)

func newLine(t testing.TB, provider http.Handler) *line {
	t.Helper()
	l := &line{provider: provider}
	l.Server = httptest.NewServer(l)
	t.Cleanup(l.Close)
	return l
}

// cutAt cuts one of the next calls, 0 the very next: do is called at the moment, and
// the call goes no further.
func (l *line) cutAt(call int, at moment, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.at, l.cut = call, at, do
}

// count is how many calls there were.
func (l *line) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// ServeHTTP forwards a call, or cuts it.
func (l *line) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	l.heard++
	cut, at := l.cut, l.at
	switch {
	case cut == nil:
	case l.calls > 0:
		l.calls--
		cut = nil
	default:
		l.cut = nil
	}
	l.mu.Unlock()
	switch {
	case cut == nil:
		l.provider.ServeHTTP(w, r)
		return
	case at == beforeReply:
		l.provider.ServeHTTP(httptest.NewRecorder(), r)
	case at == afterReply:
		l.provider.ServeHTTP(w, r)
		_ = http.NewResponseController(w).Flush() // the caller may have gone
	}
	cut()
	panic(http.ErrAbortHandler) // the connection ends without an answer
}

// customer is a browser without script for the customers' pages of the provider. It
// follows no redirect.
func (p *played) customer() *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate has another name
			DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
				if host, _, _ := net.SplitHostPort(address); host == p.host {
					address = p.pages
				}
				return dialer.DialContext(ctx, network, address)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
