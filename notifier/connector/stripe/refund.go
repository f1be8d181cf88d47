package stripe

import (
	"context"
	"errors"
	"fmt"

	api "github.com/stripe/stripe-go/v85"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Limits on the keys that one refund may use up, and on the refunds of a payment that are read: a
// charge has as many only if it was returned in many small parts.
const (
	maxKeys    = 3
	maxRefunds = 1000
	refundPage = 100
)

// Refund creates a refund of the session's PaymentIntent.
//
// Its idempotency key is the refund's id. Where Stripe repeats a server error for
// it, and lists no refund of this id, another key is tried: should the error have
// been none after all, the whole of a charge is still returned only once.
func (c *account) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	if r.Reference != "" {
		return c.refund(ctx, r)
	}
	s, attempt, err := c.session(ctx, r.Attempt)
	if err != nil {
		return connector.RefundState{}, err
	}
	if attempt.Phase != connector.Paid || s.PaymentIntent == nil {
		return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: "not_paid"}, nil
	}
	key := r.ID.String()
	for n := 2; ; n++ {
		st, err := c.createRefund(ctx, r, s.PaymentIntent.ID, key)
		e, ok := errors.AsType[*apiError](err)
		if err == nil || !ok || !e.spent() && !e.refused() {
			return st, err
		}
		ours, found, listErr := c.find(ctx, r, s.PaymentIntent.ID)
		switch {
		case listErr != nil:
			return connector.RefundState{}, listErr
		case found:
			return ours, nil
		case e.answer.Code == api.ErrorCodeChargeAlreadyRefunded:
			return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: connector.ReasonRefundedAtProvider}, nil
		case !e.spent():
			return connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: e.reason()}, nil
		case n > maxKeys:
			return connector.RefundState{}, err
		}
		key = fmt.Sprintf("%s-%d", r.ID, n)
	}
}

func (c *account) createRefund(ctx context.Context, r connector.Refund, intent, key string) (connector.RefundState, error) {
	params := &api.RefundCreateParams{
		PaymentIntent: api.String(intent),
		Amount:        new(int64(r.Amount)),
		Metadata:      map[string]string{metaRefund: r.ID.String(), metaPayment: r.Attempt.Payment.String(), metaProject: r.Attempt.Project},
	}
	params.SetIdempotencyKey(key)
	noted, answer := noting(ctx)
	refund, err := c.client.V1Refunds.Create(noted, params)
	if err := answer.failure("creating a refund", err); err != nil {
		return connector.RefundState{}, err
	}
	if answer.replayed { // as it was then
		r.Reference = refund.ID
		return c.refund(ctx, r)
	}
	return ourRefund(refund, r)
}

// refund reads a refund whose reference is known.
func (c *account) refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	noted, answer := noting(ctx)
	refund, err := c.client.V1Refunds.Retrieve(noted, r.Reference, nil)
	if err := answer.failure("retrieving a refund", err); err != nil {
		return connector.RefundState{}, err
	}
	return ourRefund(refund, r)
}

func ourRefund(refund *api.Refund, r connector.Refund) (connector.RefundState, error) {
	st, err := refundState(refund, r.Attempt)
	if err == nil && st.ID != r.ID {
		err = errors.New("Stripe answers with a refund that is not the one asked for")
	}
	return st, err
}

// find looks for the refund of our id among all of the PaymentIntent.
func (c *account) find(ctx context.Context, r connector.Refund, intent string) (connector.RefundState, bool, error) {
	all, err := c.list(ctx, r.Attempt, intent)
	for _, st := range all {
		if st.ID == r.ID {
			return st, true, nil
		}
	}
	return connector.RefundState{}, false, err
}

// Refunds lists the refunds of the session's PaymentIntent.
func (c *account) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	s, _, err := c.session(ctx, a)
	if err != nil || s.PaymentIntent == nil {
		return nil, err
	}
	return c.list(ctx, a, s.PaymentIntent.ID)
}

func (c *account) list(ctx context.Context, a connector.Attempt, intent string) ([]connector.RefundState, error) {
	params := &api.RefundListParams{PaymentIntent: api.String(intent)}
	params.Limit = new(int64(refundPage))
	noted, answer := noting(ctx)
	var all []connector.RefundState
	list := c.client.V1Refunds.List(noted, params)
	for refund, err := range list.All(noted) {
		if err != nil {
			break // it is list's too
		}
		st, err := refundState(refund, a)
		if err != nil {
			return nil, err
		}
		if all = append(all, st); len(all) > maxRefunds {
			return nil, fmt.Errorf("Stripe lists more than %d refunds of one payment", maxRefunds)
		}
	}
	if err := answer.failure("listing refunds", list.Err()); err != nil {
		return nil, err
	}
	return all, nil
}

// refundState reads a refund. It is ours if its metadata name the attempt's
// payment too: metadata can be changed by hand.
func refundState(r *api.Refund, a connector.Attempt) (connector.RefundState, error) {
	if r.ID == "" || len(r.ID) > domain.MaxReference {
		return connector.RefundState{}, errors.New("Stripe answers with something that is no refund")
	}
	st := connector.RefundState{
		Reference: r.ID, Phase: connector.Open,
		Amount: domain.Amount(r.Amount), Currency: currency(r.Currency),
	}
	if id, ok := domain.ParseID(r.Metadata[metaRefund]); ok && r.Metadata[metaPayment] == a.Payment.String() {
		st.ID = id
	}
	switch r.Status {
	case api.RefundStatusPending, api.RefundStatusRequiresAction:
	case api.RefundStatusSucceeded:
		st.Phase = connector.Paid
	case api.RefundStatusFailed, api.RefundStatusCanceled:
		st.Phase, st.Reason = connector.Closed, connector.ReasonCode(string(r.Status))
		if r.FailureReason != "" {
			st.Reason = connector.ReasonCode(string(r.FailureReason))
		}
	default:
		return connector.RefundState{}, errors.New("Stripe answers with a refund of a status that is not known")
	}
	return st, nil
}
