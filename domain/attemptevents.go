package domain

import (
	"fmt"
	"slices"
)

// PaymentAttemptBegun records that an attempt is about to be made at the
// provider, under the key.
type PaymentAttemptBegun struct {
	Attempt  int     `json:"attempt"`
	Key      string  `json:"key"`
	BegunAt  Instant `json:"begun_at"`
	Language string  `json:"language"`
	Merchant string  `json:"merchant"`
}

func (PaymentAttemptBegun) Type() string { return TypePaymentAttemptBegun }

func (e PaymentAttemptBegun) evolvePayment(p Payment) Payment {
	if e.Attempt == len(p.Attempts)+1 {
		p.Attempts = append(slices.Clip(p.Attempts), Attempt{
			Number: e.Attempt, Status: AttemptBegun, BegunAt: e.BegunAt, Language: e.Language, Merchant: e.Merchant,
		})
	}
	return p
}

func (PaymentAttemptBegun) postings() []Posting { return nil }

func (PaymentAttemptBegun) facts() Facts { return Facts{} }

func (e PaymentAttemptBegun) origin(p Payment, r Recorded) (Payment, PaymentCommand, error) {
	var err error
	if r.At != e.BegunAt {
		err = fmt.Errorf("it was recorded at %s and says that it began at %s", r.At, e.BegunAt)
	}
	return p, BeginAttempt{At: e.BegunAt, Language: e.Language, Merchant: e.Merchant}, err
}

// PaymentAttemptOffered records that the customer is about to be redirected to the provider. The
// address is not recorded: anyone who has it can pay or see the payment.
type PaymentAttemptOffered struct {
	Attempt   int         `json:"attempt"`
	Reference string      `json:"reference"`
	HandOff   HandOffKind `json:"hand_off,omitempty"`
	ExpiresAt Instant     `json:"expires_at,omitzero"`
}

func (PaymentAttemptOffered) Type() string { return TypePaymentAttemptOffered }

func (e PaymentAttemptOffered) evolvePayment(p Payment) Payment {
	return p.withAttempt(e.Attempt, func(a *Attempt) {
		a.Status, a.Reference, a.HandOff, a.ExpiresAt = AttemptOffered, e.Reference, e.HandOff, e.ExpiresAt
	})
}

func (PaymentAttemptOffered) postings() []Posting { return nil }

func (PaymentAttemptOffered) facts() Facts { return Facts{} }

func (e PaymentAttemptOffered) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return p, OfferAttempt{Number: e.Attempt, Reference: e.Reference, HandOff: e.HandOff, ExpiresAt: e.ExpiresAt}, validHandOff(e.HandOff)
}

// PaymentAttemptFailed records that no money can come of an attempt. The payment
// may be attempted again.
type PaymentAttemptFailed struct {
	Attempt int    `json:"attempt"`
	Reason  string `json:"reason"`
}

func (PaymentAttemptFailed) Type() string { return TypePaymentAttemptFailed }

func (e PaymentAttemptFailed) evolvePayment(p Payment) Payment {
	return p.withAttempt(e.Attempt, func(a *Attempt) { a.Status, a.Reason = AttemptFailed, e.Reason })
}

func (PaymentAttemptFailed) postings() []Posting { return nil }

func (e PaymentAttemptFailed) facts() Facts { return Facts{Reason: e.Reason} }

func (e PaymentAttemptFailed) origin(p Payment, _ Recorded) (Payment, PaymentCommand, error) {
	return p, FailAttempt{Number: e.Attempt, Reason: e.Reason}, validReason(e.Reason)
}
