// Package yookassatest plays YooKassa: its API, its page for customers and its
// notifications, with payments, holds, refunds and idempotency keys that last.
//
// A key that is used again gets the bytes of its first answer, even when the
// object has changed since: the strictest reading of YooKassa's documentation.
package yookassatest

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
	"payledger/notifier/connector/yookassa"
)

// The shop that the API lets in.
const (
	ShopID    = "123456"
	SecretKey = "key-of-the-fake-shop"
)

// Processing is a fault that only YooKassa has: the request is done, and answered
// with 202, "still processing".
const Processing connectortest.Fault = 100

// Options are what shops differ in.
type Options struct {
	Method string // the connector's setting: the method of payment
	QR     bool   // the connector's setting: QR codes on our own page
	Pages  string // the public base of customers' pages; empty: https://yookassa.test.example
}

// Fake is YooKassa. It serves the API under /v3/ and the customers' pages under
// /pay/. Safe for concurrent use.
type Fake struct {
	connectortest.Faults

	options Options
	server  *httptest.Server
	client  *http.Client

	mu          sync.Mutex
	last        int // of the numbers in ids
	payments    map[string]*payment
	refunds     []*refund
	keys        map[string]answered
	sent        []connectortest.Notification
	wrongAmount bool
	live        bool
	noMetadata  bool
	requests    []string
}

// answered is what a key was answered with.
type answered struct {
	request string // path and body
	status  int
	body    []byte
	at      time.Time
}

// keptFor is how long keys are remembered.
const keptFor = 24 * time.Hour

var _ connectortest.Provider = (*Fake)(nil)

// Start starts the fake on loopback, until the test ends.
func Start(t testing.TB, o Options) *Fake {
	t.Helper()
	if o.Pages == "" {
		o.Pages = "https://yookassa.test.example"
	}
	f := &Fake{options: o, payments: make(map[string]*payment), keys: make(map[string]answered)}
	f.server = httptest.NewServer(f)
	// Without connections that are reused: a client of Go repeats requests on them.
	f.client = &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	t.Cleanup(f.server.Close)
	return f
}

// URL is where the fake is served.
func (f *Fake) URL() string { return f.server.URL }

// Settings is the connector's object in the routes file. The secret key is in the
// environment variable YOOKASSA_SECRET_KEY.
func (f *Fake) Settings() string { return f.settings("yookassa") }

func (f *Fake) settings(kind string) string {
	return string(encode(struct {
		Type   string `json:"type,omitzero"`
		ShopID string `json:"shop_id"`
		Key    string `json:"secret_key_env"`
		Method string `json:"method"`
		QR     bool   `json:"qr"`
		Test   bool   `json:"test"`
		Base   string `json:"api_base"`
	}{kind, ShopID, "YOOKASSA_SECRET_KEY", f.options.Method, f.options.QR, true, f.server.URL + "/v3"}))
}

// Connector is a connector with this shop.
func (f *Fake) Connector() connector.Connector { return f.Open(f.settings(""), SecretKey) }

// Open makes a connector with other settings or another key.
func (f *Fake) Open(settings, key string) connector.Connector {
	c, err := yookassa.Type().Open(connector.Env{
		Now: time.Now, HTTP: f.client,
		Secret: func(string, string, string) (string, error) { return key, nil },
	}, "yookassa", []byte(settings))
	if err != nil {
		panic(err)
	}
	return c
}

// Pay is the customer who pays: the money is held, or collected where the
// payment or its method has no holds.
func (f *Fake) Pay(reference string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[reference]
	if p == nil || p.Status != "pending" {
		return false
	}
	if p.wrong {
		p.Amount.add(100)
	}
	p.Confirmation = nil
	p.Paid = true
	if p.capture {
		f.collect(p)
		return true
	}
	p.Status, p.ExpiresAt = "waiting_for_capture", stamp(time.Now().Add(7*keptFor))
	f.notify("payment.waiting_for_capture", p)
	return true
}

// Decline is a bank that refuses: the payment is over.
func (f *Fake) Decline(reference string) bool {
	return f.cancel(reference, "insufficient_funds", "pending")
}

// Expire lets the time of the customer or of a hold run out.
func (f *Fake) Expire(reference string) bool {
	return f.cancel(reference, "expired_on_confirmation", "pending") ||
		f.cancel(reference, "expired_on_capture", "waiting_for_capture")
}

func (f *Fake) cancel(reference, reason, from string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[reference]
	if p == nil || p.Status != from {
		return false
	}
	f.end(p, "yoo_money", reason)
	return true
}

// RefundByHand is the merchant who refunds in YooKassa's dashboard.
func (f *Fake) RefundByHand(reference string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[reference]
	if p == nil || p.Status != "succeeded" || f.returned(p, true) > 0 {
		return false
	}
	f.refundByHand(p, p.Amount.minor())
	return true
}

// RefundPart returns a part of an attempt's money by hand.
func (f *Fake) RefundPart(reference string, part domain.Amount) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refundByHand(f.payments[reference], part)
}

func (f *Fake) refundByHand(p *payment, n domain.Amount) {
	r := f.addRefund(p, amount{n.String(), p.Amount.Currency})
	r.Description = "Returned by hand"
	f.succeed(r)
}

// RefundWithoutTrace returns the money by a bank's order, which makes no refund
// that the API lists.
func (f *Fake) RefundWithoutTrace(reference string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.payments[reference]
	p.elsewhere = p.Amount.minor()
	p.Refunded = p.Amount
}

// SettleRefund ends a refund of the connector's.
func (f *Fake) SettleRefund(id domain.ID, succeeded bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.refunds {
		if r.Description != "payledger "+id.String() || r.Status != "pending" {
			continue
		}
		if succeeded {
			f.succeed(r)
		} else {
			r.Status, r.Cancellation = "canceled", &cancellation{"yoo_money", "insufficient_funds"}
		}
		return true
	}
	return false
}

// TakeBack cancels a refund that had succeeded. YooKassa sends no notification of it.
func (f *Fake) TakeBack(reference string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.refunds {
		if r.PaymentID == reference && r.Status == "succeeded" {
			r.Status, r.Cancellation = "canceled", &cancellation{"yoo_money", "rejected_by_payee"}
			p := f.payments[reference]
			p.Refunded = amount{f.returned(p, false).String(), p.Amount.Currency}
			return true
		}
	}
	return false
}

// Dispute is false: YooKassa's API has no disputes.
func (*Fake) Dispute(string) bool { return false }

// EndDispute is false, as Dispute.
func (*Fake) EndDispute(string, bool) bool { return false }

// Attempts are the ids of the payments made for a payment of ours.
func (f *Fake) Attempts(of domain.ID) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, p := range f.payments {
		if p.Metadata["payledger_payment"] == of.String() {
			all = append(all, p.ID)
		}
	}
	return all
}

// WrongAmount lets payments made from now on collect 1.00 too much.
func (f *Fake) WrongAmount() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrongAmount = true
}

// Live makes the shop one that is no test shop.
func (f *Fake) Live() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.live = true
}

// WithoutMetadata makes the shop one whose refunds have no metadata.
func (f *Fake) WithoutMetadata() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.noMetadata = true
}

// ForgetKeys is what happens after 24 hours.
func (f *Fake) ForgetKeys() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.keys)
}

// Sent takes the notifications.
func (f *Fake) Sent() []connectortest.Notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	sent := f.sent
	f.sent = nil
	return sent
}

// Signed is a notification with any body: YooKassa signs none.
func (*Fake) Signed(body []byte) connectortest.Notification {
	return connectortest.Notification{Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}

// Foreign are notifications of other kinds, and about a payment that another program has made in
// the same shop.
func (f *Fake) Foreign() []connectortest.Notification {
	others := payment{ID: "22e12f66-000f-5000-8000-18db351245c7", Status: "succeeded", Amount: amount{"2.00", "RUB"}, Test: true}
	return []connectortest.Notification{
		notification("payment.succeeded", others),
		notification("payment_method.active", map[string]any{"id": others.ID, "type": "bank_card", "saved": true}),
		notification("payout.succeeded", map[string]any{"id": "po-285ec15d-0003-5000-a000-08d1bec7dade"}),
		notification("deal.closed", map[string]any{"id": "dl-285e5ee7-0022-5000-8000-01516a44b147"}),
	}
}

// Secrets are only the secret key.
func (*Fake) Secrets() []string { return []string{SecretKey} }

// Forged says that a payment has succeeded, in any state.
func (f *Fake) Forged(reference string) connectortest.Notification {
	f.mu.Lock()
	defer f.mu.Unlock()
	forged := payment{ID: reference, Status: "succeeded", Amount: amount{"0.01", "RUB"}, Paid: true, Test: true}
	if p := f.payments[reference]; p != nil {
		forged.Metadata = p.Metadata
	}
	return notification("payment.succeeded", forged)
}

// Collected is the money of captured payments.
func (f *Fake) Collected() []connectortest.Money {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []connectortest.Money
	for _, p := range f.payments {
		if p.Status == "succeeded" {
			all = append(all, p.money(p.Amount))
		}
	}
	return all
}

// Returned is the money of refunds that have succeeded.
func (f *Fake) Returned() []connectortest.Money {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []connectortest.Money
	for _, r := range f.refunds {
		if r.Status == "succeeded" {
			all = append(all, f.payments[r.PaymentID].money(r.Amount))
		}
	}
	return all
}

// Requests takes the requests that were made since the last call: method, path,
// key and body, with blanks between.
func (f *Fake) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := f.requests
	f.requests = nil
	return requests
}
