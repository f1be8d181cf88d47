package stripetest

import (
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/connectortest"
)

// id makes an object's id.
func id(prefix string) string { return prefix + rand.Text() }

type object map[string]any

// session is a Checkout Session with its PaymentIntent and charge.
type session struct {
	id            string
	form          url.Values // what it was created with
	amount        int64      // of its one item, and what is collected beyond
	status        string
	paymentStatus string
	intent        string // empty until it is paid
	expiresAt     time.Time
	created       time.Time
}

func (o *session) payment() domain.ID {
	p, _ := domain.ParseID(o.form.Get("metadata[payledger_payment]"))
	return p
}

func (o *session) money(amount int64) connectortest.Money {
	return connectortest.Money{
		Reference: o.id, Payment: o.payment(), Amount: domain.Amount(amount),
		Currency: domain.Currency(strings.ToUpper(o.form.Get(itemCurrency))),
	}
}

func (o *session) json() object {
	return object{
		"id": o.id, "object": "checkout.session", "mode": o.form.Get("mode"), "livemode": false,
		"client_reference_id": o.form.Get("client_reference_id"), "metadata": metadata(o.form, "metadata"),
		"amount_subtotal": o.amount, "amount_total": o.amount, "currency": o.form.Get(itemCurrency),
		"status": o.status, "payment_status": o.paymentStatus, "payment_intent": orNull(o.intent),
		"success_url": o.form.Get("success_url"), "cancel_url": o.form.Get("cancel_url"),
		"locale": o.form.Get("locale"), "ui_mode": "hosted",
		"created": o.created.Unix(), "expires_at": o.expiresAt.Unix(),
		"url": orNull(map[bool]string{true: checkoutURL(o.id)}[o.status == "open"]),
	}
}

// charge is the session's charge, with the metadata of its PaymentIntent.
func (o *session) charge(refunded int64) object {
	return object{
		"id": "ch_" + strings.TrimPrefix(o.intent, "pi_"), "object": "charge", "payment_intent": o.intent,
		"amount": o.amount, "amount_refunded": refunded, "refunded": refunded == o.amount, "currency": o.form.Get(itemCurrency),
		"metadata": metadata(o.form, "payment_intent_data[metadata]"), "livemode": false,
	}
}

// refund is a refund of a session's money.
type refund struct {
	id       string
	of       *session
	amount   int64
	status   string
	failure  string
	metadata map[string]string
	created  time.Time
}

func (r *refund) json() object {
	o := object{
		"id": r.id, "object": "refund", "amount": r.amount, "currency": r.of.form.Get(itemCurrency),
		"payment_intent": r.of.intent, "charge": r.of.charge(0)["id"], "status": r.status,
		"metadata": r.metadata, "created": r.created.Unix(), "reason": nil,
	}
	if r.failure != "" {
		o["failure_reason"] = r.failure
	}
	return o
}

// dispute is a dispute of a session's money. It has no metadata of the session's.
type dispute struct {
	id      string
	of      *session
	status  string
	created time.Time
}

func (d *dispute) json() object {
	return object{
		"id": d.id, "object": "dispute", "amount": d.of.amount, "currency": d.of.form.Get(itemCurrency),
		"payment_intent": d.of.intent, "charge": d.of.charge(0)["id"], "status": d.status, "reason": "fraudulent",
		"metadata": object{}, "created": d.created.Unix(), "livemode": false, "is_charge_refundable": false,
		"evidence_details": object{"due_by": d.created.AddDate(0, 0, 7).Unix(), "has_evidence": false},
	}
}

// refund makes a refund.
func (s *Stripe) refund(of *session, amount int64, status string, meta map[string]string) *refund {
	r := &refund{id: id("re_"), of: of, amount: amount, status: status, metadata: meta, created: time.Now()}
	s.refunds = append(s.refunds, r)
	s.send("refund.created", r.json())
	s.send("charge.refunded", of.charge(of.amount-s.unrefunded(of)))
	return r
}

// unrefunded is what is left of a session's money.
func (s *Stripe) unrefunded(o *session) int64 {
	left := o.amount
	for _, r := range s.refunds {
		if r.of == o && r.status != "failed" && r.status != "canceled" {
			left -= r.amount
		}
	}
	return left
}

// metadata reads name[key]=value of a form.
func metadata(form url.Values, name string) map[string]string {
	m := make(map[string]string)
	for key := range form {
		if key, ok := strings.CutPrefix(key, name+"["); ok {
			m[strings.TrimSuffix(key, "]")] = form.Get(name + "[" + key)
		}
	}
	return m
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
