// Package stripetest plays Stripe for tests: sessions, payments and refunds with their state,
// idempotency keys with their answers, signed notifications, and the page on which a customer pays.
// It is as strict as Stripe where package stripe relies on it, and has nothing else.
package stripetest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/client"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/stripe"
)

// CheckoutHost is the name in the URLs of hand-offs. A browser reaches it with
// --host-resolver-rules="MAP checkout.stripe.test.example ADDRESS", where ADDRESS
// is Stripe.Checkout, and --ignore-certificate-errors.
const CheckoutHost = "checkout.stripe.test.example"

// Stripe is one account at Stripe, in test mode.
type Stripe struct {
	connectortest.Faults

	API      string // base URL of the API
	Checkout string // address of the customers' pages, with TLS
	Key      string // secret API key
	Secret   string // signing secret of notifications

	mu       sync.Mutex
	surplus  int64 // collected beyond what was asked for
	keys     map[string]saved
	sessions map[string]*session
	refunds  []*refund // in the order of their creation
	disputes []*dispute
	sent     []connectortest.Notification
}

// Start starts Stripe; it ends with the test.
func Start(t testing.TB) *Stripe {
	t.Helper()
	s := &Stripe{
		Key: "sk_test_" + rand.Text(), Secret: "whsec_" + rand.Text(),
		keys: make(map[string]saved), sessions: make(map[string]*session),
	}
	api := httptest.NewServer(s)
	t.Cleanup(api.Close)
	pages := httptest.NewTLSServer(s.pages())
	t.Cleanup(pages.Close)
	s.API, s.Checkout = api.URL, pages.Listener.Addr().String()
	return s
}

// Settings is the connector's object of the routes file, which wants the secrets
// in the two environment variables.
func (s *Stripe) Settings(keyEnv, secretEnv string) string {
	return fmt.Sprintf(`{"api_key_env":%q,"webhook_secret_env":%q,"test":true,"api_base":%q}`, keyEnv, secretEnv, s.API)
}

// Connector opens a connector of the account.
func (s *Stripe) Connector() connector.Connector {
	secrets := map[string]string{"api_key": s.Key, "webhook_secret": s.Secret}
	c, err := stripe.Type().Open(connector.Env{
		Now: time.Now, HTTP: client.New(client.Config{AllowPrivate: true}),
		Secret: func(name, _, _ string) (string, error) { return secrets[name], nil },
	}, "stripe", []byte(s.Settings("KEY", "SECRET")))
	if err != nil {
		panic(err) // the settings are ours
	}
	return c
}

// Pay is the customer's successful payment on the session's page.
func (s *Stripe) Pay(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open(reference)
	if o == nil {
		return false
	}
	o.status, o.paymentStatus, o.intent = "complete", "paid", id("pi_")
	s.send("checkout.session.completed", o.json())
	return true
}

// Decline is a declined card: the session stays open for another one.
func (s *Stripe) Decline(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open(reference) != nil
}

// Expire ends an open session, as its time does.
func (s *Stripe) Expire(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.open(reference)
	if o == nil {
		return false
	}
	s.expire(o)
	return true
}

func (s *Stripe) expire(o *session) {
	o.status = "expired"
	s.send("checkout.session.expired", o.json())
}

// open is a session that the customer can pay; nil if there is none.
func (s *Stripe) open(reference string) *session {
	o, ok := s.sessions[reference]
	if ok && o.status == "open" && time.Now().After(o.expiresAt) {
		s.expire(o)
	}
	if !ok || o.status != "open" {
		return nil
	}
	return o
}

// RefundByHand is a refund made in Stripe's dashboard.
func (s *Stripe) RefundByHand(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sessions[reference]
	if !ok || o.paymentStatus != "paid" || s.unrefunded(o) == 0 {
		return false
	}
	s.refund(o, s.unrefunded(o), "succeeded", nil)
	return true
}

// RefundPart is a refund of a part, made in Stripe's dashboard.
func (s *Stripe) RefundPart(reference string, part domain.Amount) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sessions[reference]
	if !ok || o.paymentStatus != "paid" || s.unrefunded(o) < int64(part) {
		return false
	}
	s.refund(o, int64(part), "succeeded", nil)
	return true
}

// SettleRefund ends a pending refund.
func (s *Stripe) SettleRefund(refundID domain.ID, succeeded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refunds {
		if r.metadata["payledger_refund"] != refundID.String() || r.status != "pending" {
			continue
		}
		kind := "refund.updated"
		r.status = "succeeded"
		if !succeeded {
			kind, r.status, r.failure = "refund.failed", "failed", "expired_or_canceled_card"
		}
		s.send(kind, r.json())
		s.send("charge.refund.updated", r.json())
		return true
	}
	return false
}

// TakeBack fails a refund that had succeeded, as when the card is closed. The notification has the
// name of any change.
func (s *Stripe) TakeBack(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refunds {
		if r.of.id == reference && r.status == "succeeded" {
			r.status, r.failure = "failed", "expired_or_canceled_card"
			s.send("refund.updated", r.json())
			return true
		}
	}
	return false
}

// Dispute is the customer who disputes the charge at the bank, after a question that took no money.
func (s *Stripe) Dispute(reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.sessions[reference]
	if !ok || o.paymentStatus != "paid" {
		return false
	}
	s.disputes = append(s.disputes, &dispute{id("du_"), o, "warning_closed", time.Now()})
	d := &dispute{id("du_"), o, "needs_response", time.Now()}
	s.disputes = append(s.disputes, d)
	s.send("charge.dispute.created", d.json())
	return true
}

// EndDispute decides what is open.
func (s *Stripe) EndDispute(reference string, won bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := false
	for _, d := range s.disputes {
		if d.of.id == reference && d.status == "needs_response" {
			d.status, ended = map[bool]string{true: "won", false: "lost"}[won], true
			s.send("charge.dispute.closed", d.json())
		}
	}
	return ended
}

// Attempts are the sessions of a payment.
func (s *Stripe) Attempts(payment domain.ID) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id, o := range s.sessions {
		if o.payment() == payment {
			ids = append(ids, id)
		}
	}
	return ids
}

// ForgetKeys forgets the answers to all idempotency keys.
func (s *Stripe) ForgetKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.keys)
}

// WrongAmount adds to all sessions from now on, as taxes of the dashboard would.
func (s *Stripe) WrongAmount() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.surplus = 100
}

// Customer is a browser without script: it reaches the customers' pages, and
// follows no redirects.
func (s *Stripe) Customer() *http.Client {
	dialer := &net.Dialer{}
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives: true,
			TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, // the certificate is for another name
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return dialer.DialContext(ctx, network, s.Checkout)
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Collected is the money of all paid sessions.
func (s *Stripe) Collected() []connectortest.Money {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []connectortest.Money
	for _, o := range s.sessions {
		if o.paymentStatus == "paid" {
			all = append(all, o.money(o.amount))
		}
	}
	return all
}

// Returned is the money of all refunds that have succeeded.
func (s *Stripe) Returned() []connectortest.Money {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []connectortest.Money
	for _, r := range s.refunds {
		if r.status == "succeeded" {
			all = append(all, r.of.money(r.amount))
		}
	}
	return all
}

// Secrets are the API key and the signing secret.
func (s *Stripe) Secrets() []string { return []string{s.Key, s.Secret} }

// pages are the customers' pages. Anyone with a session's id can pay it.
func (s *Stripe) pages() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /c/pay/{id}", func(w http.ResponseWriter, r *http.Request) { s.page(w, r, false) })
	mux.HandleFunc("POST /c/pay/{id}/pay", func(w http.ResponseWriter, r *http.Request) {
		s.back(w, r, s.Pay(r.PathValue("id")), "success_url")
	})
	mux.HandleFunc("POST /c/pay/{id}/decline", func(w http.ResponseWriter, r *http.Request) {
		s.page(w, r, s.Decline(r.PathValue("id")))
	})
	mux.HandleFunc("POST /c/pay/{id}/cancel", func(w http.ResponseWriter, r *http.Request) { s.back(w, r, true, "cancel_url") })
	return mux
}

// checkoutURL is a session's hand-off.
func checkoutURL(id string) string {
	return (&url.URL{Scheme: "https", Host: CheckoutHost, Path: "/c/pay/" + id, Fragment: "fid"}).String()
}
