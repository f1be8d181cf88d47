package yookassa

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"payledger/notifier/connector"
)

// maxDescription is YooKassa's limit on the description of a payment, in
// characters.
const maxDescription = 128

// Begin makes the payment at YooKassa. A key that was used with another request,
// as after a change of the settings, is spent: its payment was never shown to the
// customer.
func (s *shop) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	var p payment
	err := s.api.post(ctx, "/payments", a.Key, s.request(a), &p)
	if e, ok := errors.AsType[*answerError](err); ok && e.refusal() {
		if e.keyUsed() {
			return connector.State{}, &connector.SpentKeyError{Err: e}
		}
		return connector.State{}, &connector.RefusedError{Reason: e.reason(), Detail: e.Error()}
	}
	if err != nil {
		return connector.State{}, err
	}
	if !validID(p.ID) {
		return connector.State{}, errors.New("YooKassa made a payment without a valid id")
	}
	a.Reference = p.ID
	st, err := s.Read(ctx, a)
	if errors.Is(err, connector.ErrNotFound) {
		return connector.State{}, fmt.Errorf("payment %s was made at YooKassa and is not found there", p.ID)
	}
	return st, err
}

// request is the same for each call with the same attempt and settings.
func (s *shop) request(a connector.Attempt) paymentRequest {
	req := paymentRequest{
		Amount:       moneyOf(a.Amount, a.Currency),
		Capture:      s.method == sbp,
		Confirmation: confirmation{Type: byRedirect, Return: a.ReturnURL, Locale: locale(a.Language)},
		Description:  shorten(a.Merchant, maxDescription),
		Metadata:     map[string]string{metaPayment: a.Payment.String(), metaAttempt: a.Key, metaProject: a.Project},
		Receipt:      a.Receipt,
	}
	if s.method != "" {
		req.PaymentMethod = &paymentMethod{Type: s.method}
	}
	if s.qr {
		req.Confirmation.Type = byQR
	}
	return req
}

func locale(language string) string {
	if language == "en" {
		return "en_US"
	}
	return "ru_RU"
}

// shorten cuts a text after most characters.
func shorten(text string, most int) string {
	runes := 0
	for at := range text {
		if runes++; runes > most {
			return text[:at]
		}
	}
	return text
}

// Read returns the payment's state, and captures the money if it is held.
func (s *shop) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	return s.settle(ctx, a, "capture")
}

// Cancel releases the money if it is held. A pending payment stays open: YooKassa cancels it by
// itself when the customer's time is over.
func (s *shop) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	return s.settle(ctx, a, "cancel")
}

// settle reads the payment and ends a hold, by "capture" or "cancel".
func (s *shop) settle(ctx context.Context, a connector.Attempt, action string) (connector.State, error) {
	p, err := s.payment(ctx, a)
	if err != nil {
		return connector.State{}, err
	}
	if p.Status == held {
		p = payment{}
		if err := s.api.post(ctx, "/payments/"+a.Reference+"/"+action, a.Key+"-"+action, struct{}{}, &p); err != nil {
			return connector.State{}, fmt.Errorf("ending the hold of payment %s by %s: %w", a.Reference, action, err)
		}
		if p.ID != a.Reference {
			return connector.State{}, fmt.Errorf("YooKassa answered another payment than %s", a.Reference)
		}
	}
	return p.state()
}

// payment reads the attempt's payment at YooKassa, and refuses one of the wrong mode. One whose
// metadata do not name the attempt's payment is not found: notifications are not signed, so their
// sender can name any payment of the shop as the money of any payment here.
func (s *shop) payment(ctx context.Context, a connector.Attempt) (payment, error) {
	var p payment
	reference := a.Reference
	if !validID(reference) {
		return p, connector.ErrNotFound
	}
	err := s.api.get(ctx, "/payments/"+reference, &p)
	if e, ok := errors.AsType[*answerError](err); ok && e.status == http.StatusNotFound {
		return p, connector.ErrNotFound
	}
	switch {
	case err != nil:
		return p, err
	case p.ID != reference:
		return p, fmt.Errorf("YooKassa answered another payment than %s", reference)
	case p.Test && !s.test:
		return p, fmt.Errorf(`payment %s is a test shop's and the route's settings do not say "test": true`, reference)
	case !p.Test && s.test:
		return p, fmt.Errorf(`payment %s is no test shop's and the route's settings say "test": true`, reference)
	case idIn(p.Metadata, metaPayment) != a.Payment:
		return p, connector.ErrNotFound
	}
	return p, nil
}
