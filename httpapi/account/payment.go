package account

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// paymentFacts is a payment with what only its merchant may know of it.
type paymentFacts struct {
	Payment       domain.PaymentObject  `json:"payment"`
	ExpiresAt     domain.Instant        `json:"expires_at"`
	Route         *string               `json:"route"`
	FailureReason *string               `json:"failure_reason"`
	Link          string                `json:"link"`
	Refunds       []domain.RefundObject `json:"refunds"`
}

// Open reports whether the customer can still pay.
func (f paymentFacts) Open() bool { return !f.Payment.Status.Final() }

// Pending is the refund that the provider has not answered yet, nil for none.
func (f paymentFacts) Pending() *domain.RefundObject {
	for i, r := range f.Refunds {
		if r.Status == domain.RefundPending {
			return &f.Refunds[i]
		}
	}
	return nil
}

// Refundable reports whether a refund could be made.
func (f paymentFacts) Refundable() bool {
	if f.Payment.Status != domain.Paid {
		return false
	}
	for _, r := range f.Refunds {
		if r.Status != domain.RefundFailed {
			return false
		}
	}
	return true
}

// Refunded reports whether the money was returned.
func (f paymentFacts) Refunded() bool {
	for _, r := range f.Refunds {
		if r.Status == domain.RefundSucceeded {
			return true
		}
	}
	return false
}

// occurrence is an event of a payment.
type occurrence struct {
	Position uint64         `json:"position"`
	Raw      jsontext.Value `json:"event"`
}

// event is what of a stored event is shown.
type event struct {
	ID   domain.ID      `json:"id"`
	Type string         `json:"type"`
	At   domain.Instant `json:"at"`
	Data struct {
		Route  string `json:"route"`
		Reason string `json:"reason"`

		Unrecorded int `json:"unrecorded"`

		RefundID string         `json:"refund_id"`
		Expires  domain.Instant `json:"expires_at"`
		Signal   *struct {
			Route     string          `json:"route"`
			Reference string          `json:"reference"`
			Amount    domain.Amount   `json:"amount"`
			Currency  domain.Currency `json:"currency"`
		} `json:"signal"`
	} `json:"data"`
}

// moment is an event with its place in the log.
type moment struct {
	event
	Position uint64
}

// paymentPage is what payment.html is filled with.
type paymentPage struct {
	desk
	paymentFacts
	Moments    []moment
	More       bool // there are further events
	Payload    string
	Compact    string
	Deliveries []domain.DeliveryObject
	MoreSent   bool // there are further deliveries
	Hooks      bool // there is something to say about deliveries
}

// settling is a form that decides in the provider's place.
type settling struct {
	desk
	Action, Refund, Outcome, Text string
}

// Settling is the form for an outcome, with the word of an id on its button.
func (p paymentPage) Settling(refund, outcome, word string) settling {
	return settling{p.desk, p.Root + "payments/" + p.Payment.ID.String() + "/settle", refund, outcome, p.T(word)}
}

func (v *visit) showPayment() error {
	path := "/v1/payments/" + v.vars["id"]
	facts, err := get[paymentFacts](v, "/account-api/payments/"+v.vars["id"], nil)
	if err != nil {
		return err
	}
	events, err := get[listOf[occurrence]](v, path+"/events", nil)
	if err != nil {
		return err
	}
	title := v.locale.T("payment.title")
	if facts.Payment.Description != nil && *facts.Payment.Description != "" {
		title = *facts.Payment.Description
	}
	page := paymentPage{
		desk: v.desk(title), paymentFacts: facts, More: events.Next != nil, Compact: string(facts.Payment.Payload),
		Payload: pretty(string(facts.Payment.Payload)), Hooks: v.Webhooks,
	}
	for _, o := range events.Data {
		m := moment{Position: o.Position}
		if err := unmarshal(o.Raw, &m.event); err != nil {
			return err
		}
		page.Moments = append(page.Moments, m)
	}
	if v.Webhooks {
		sent, err := get[listOf[domain.DeliveryObject]](v, path+"/deliveries", url.Values{"limit": {"50"}})
		if err != nil {
			return err
		}
		page.Deliveries, page.MoreSent = sent.Data, sent.Next != nil
	}
	return v.render(http.StatusOK, "payment.html", page)
}

// pretty is a JSON object with a member a line; escapes, digits and the order
// of members stay as they were sent.
func pretty(compact string) string {
	v := jsontext.Value(compact)
	if err := v.Indent(jsontext.WithIndent("  "), jsontext.PreserveRawStrings(true), jsontext.AllowDuplicateNames(true)); err != nil {
		return compact
	}
	return string(v)
}

// refundPage is what refund.html is filled with.
type refundPage struct {
	desk
	paymentFacts
}

// confirmRefund asks before money is returned.
func (v *visit) confirmRefund() error {
	facts, err := get[paymentFacts](v, "/account-api/payments/"+v.vars["id"], nil)
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "refund.html", refundPage{v.desk(v.locale.T("refund.title")), facts})
}

// refund makes the refund. One that cannot be is said on the payment's page.
func (v *visit) refund() error {
	_, err := post[domain.RefundObject](v, "/v1/refunds", map[string]string{"payment_id": v.vars["id"]})
	return v.toPayment(err, "refund.made")
}

// resend has a notification sent again.
func (v *visit) resend() error {
	endpoint, id := v.value("endpoint"), v.value("event")
	_, err := post[domain.DeliveryObject](v,
		"/v1/webhook-endpoints/"+url.PathEscape(endpoint)+"/deliveries/"+url.PathEscape(id)+"/resend", nil)
	return v.toPayment(err, "payment.resent")
}

// settle plays the provider, in sandbox: it decides the refund that the form
// names, else the payment.
func (v *visit) settle() error {
	path := "/v1/sandbox/payments/" + v.vars["id"]
	if refund := v.value("refund"); refund != "" {
		path = "/v1/sandbox/refunds/" + url.PathEscape(refund)
	}
	_, err := post[jsontext.Value](v, path, map[string]string{"outcome": v.value("outcome")})
	return v.toPayment(err, "payment.settled")
}

// toPayment leads to the payment's page, which says what became of a form.
func (v *visit) toPayment(err error, word string) error {
	path := "payments/" + v.vars["id"]
	p, ok := errors.AsType[*Problem](err)
	switch {
	case ok && p.Status == http.StatusConflict:
		v.putNotice("warn", problemText(v.locale, p))
		return v.leave(path)
	case err != nil:
		return err
	}
	return v.done(path, word)
}

// search leads to what an id belongs to, else to the payments whose
// descriptions have the words.
func (v *visit) search() error {
	text := v.query("q")
	if text == "" {
		return v.leave("payments")
	}
	found, err := get[listOf[place]](v, "/account-api/lookup", url.Values{"id": {text}})
	if p, ok := errors.AsType[*Problem](err); err != nil && (!ok || p.Code != string(domain.InvalidParameter)) {
		return err
	}
	for _, p := range found.Data {
		if path := p.path(); path != "" {
			return v.leave(path)
		}
	}
	if _, ok := domain.ParseID(text); ok {
		return &failure{status: http.StatusNotFound, why: "no_id", path: "payments"}
	}
	return v.leave("payments?" + url.Values{"q": {text}}.Encode())
}

// place is what an id names.
type place struct {
	Kind       string `json:"kind"`
	PaymentID  string `json:"payment_id"`
	RefundID   string `json:"refund_id"`
	EventID    string `json:"event_id"`
	EndpointID string `json:"endpoint_id"`
	KeyID      string `json:"key_id"`
}

// path is where a place is shown, below the account.
func (p place) path() string {
	switch {
	case p.Kind == "payment":
		return "payments/" + p.PaymentID
	case p.Kind == "refund":
		return "payments/" + p.PaymentID + "#" + p.RefundID
	case p.Kind == "event", p.Kind == "delivery" && p.PaymentID != "":
		return "payments/" + p.PaymentID + "#" + p.EventID
	case p.Kind == "endpoint", p.Kind == "delivery":
		return "webhooks/" + p.EndpointID
	case p.Kind == "key":
		return "keys#" + p.KeyID
	}
	return ""
}

// positionOf reads the position that a query names.
func (v *visit) positionOf() (uint64, error) {
	n, err := strconv.ParseUint(v.query("position"), 10, 63)
	if err != nil || n == 0 {
		return 0, &failure{status: http.StatusNotFound, why: "page"}
	}
	return n, nil
}
