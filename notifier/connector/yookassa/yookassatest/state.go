package yookassatest

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/notifier/connector/connectortest"
)

type amount struct {
	Value    string          `json:"value"`
	Currency domain.Currency `json:"currency"`
}

// minor is the amount in minor units; 0: it is none.
func (a amount) minor() domain.Amount {
	n, err := domain.ParseAmount(a.Value)
	if err != nil {
		return 0
	}
	return n
}

func (a *amount) add(n domain.Amount) { a.Value = (a.minor() + n).String() }

type confirmation struct {
	Type   string `json:"type"`
	Locale string `json:"locale,omitzero"`
	Return string `json:"return_url,omitzero"`
	URL    string `json:"confirmation_url,omitzero"`
	Data   string `json:"confirmation_data,omitzero"`
}

type cancellation struct {
	Party  string `json:"party"`
	Reason string `json:"reason"`
}

type payment struct {
	ID           string            `json:"id"`
	Status       string            `json:"status"`
	Amount       amount            `json:"amount"`
	Refunded     amount            `json:"refunded_amount,omitzero"`
	Confirmation *confirmation     `json:"confirmation,omitzero"`
	Cancellation *cancellation     `json:"cancellation_details,omitzero"`
	Description  string            `json:"description,omitzero"`
	Metadata     map[string]string `json:"metadata"`
	CreatedAt    string            `json:"created_at"`
	ExpiresAt    string            `json:"expires_at,omitzero"`
	Paid         bool              `json:"paid"`
	Test         bool              `json:"test"`

	capture   bool
	wrong     bool          // it was made while amounts are wrong
	returnURL string        // where the customer goes back to
	locale    string        // of the page
	elsewhere domain.Amount // returned without a refund
}

func (p *payment) money(a amount) connectortest.Money {
	id, _ := domain.ParseID(p.Metadata["payledger_payment"])
	return connectortest.Money{Reference: p.ID, Payment: id, Amount: a.minor(), Currency: a.Currency}
}

type refund struct {
	ID           string            `json:"id"`
	PaymentID    string            `json:"payment_id"`
	Status       string            `json:"status"`
	Amount       amount            `json:"amount"`
	CreatedAt    string            `json:"created_at"`
	Description  string            `json:"description,omitzero"`
	Metadata     map[string]string `json:"metadata,omitzero"`
	Cancellation *cancellation     `json:"cancellation_details,omitzero"`
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// newID is of the form of YooKassa's.
func (f *Fake) newID() string {
	f.last++
	return fmt.Sprintf("22e12f66-000f-5000-8000-%012x", f.last)
}

func (f *Fake) collect(p *payment) {
	p.Status, p.Confirmation, p.ExpiresAt = "succeeded", nil, ""
	f.notify("payment.succeeded", p)
}

func (f *Fake) end(p *payment, party, reason string) {
	p.Status, p.Paid, p.Confirmation, p.ExpiresAt = "canceled", false, nil, ""
	p.Cancellation = &cancellation{party, reason}
	f.notify("payment.canceled", p)
}

// returned is how much of a payment has been returned, or with pending is about
// to be.
func (f *Fake) returned(p *payment, pending bool) domain.Amount {
	sum := p.elsewhere
	for _, r := range f.refunds {
		if r.PaymentID == p.ID && (r.Status == "succeeded" || pending && r.Status == "pending") {
			sum += r.Amount.minor()
		}
	}
	return sum
}

func (f *Fake) addRefund(p *payment, a amount) *refund {
	r := &refund{ID: f.newID(), PaymentID: p.ID, Status: "pending", Amount: a, CreatedAt: stamp(time.Now())}
	f.refunds = append(f.refunds, r)
	return r
}

func (f *Fake) succeed(r *refund) {
	r.Status = "succeeded"
	p := f.payments[r.PaymentID]
	p.Refunded = amount{f.returned(p, false).String(), p.Amount.Currency}
	f.notify("refund.succeeded", r)
}

// notify sends a notification: some twice, as YooKassa does until it has heard a
// 200.
func (f *Fake) notify(event string, object any) {
	n := notification(event, object)
	f.sent = append(f.sent, n, n)
}

func notification(event string, object any) connectortest.Notification {
	return connectortest.Notification{
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   encode(map[string]any{"type": "notification", "event": event, "object": object}),
	}
}

func encode(v any) jsontext.Value {
	b, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		panic(err)
	}
	return b
}

// tooLong reports whether a text has more characters than that.
func tooLong(s string, most int) bool { return strings.Count(s, "")-1 > most }
