package yookassa

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"payledger/notifier/connector"
)

// maxPages bounds the list of one payment's refunds: 100 refunds a page.
const maxPages = 10

// Refund asks for the refund. It is refused where the money has been returned before: then the
// refunds at YooKassa say by whom.
func (s *shop) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	id, request := r.ID.String(), refundRequest{
		PaymentID: r.Attempt.Reference, Amount: moneyOf(r.Amount, r.Currency),
		Description: refundPrefix + r.ID.String(), Metadata: map[string]string{metaRefund: r.ID.String()},
		Receipt: r.Attempt.Receipt,
	}
	var made refund
	err := s.api.post(ctx, "/refunds", id, request, &made)
	if e, ok := errors.AsType[*answerError](err); ok && e.refusal() {
		return s.refused(ctx, r, e)
	}
	if err != nil {
		return connector.RefundState{}, err
	}
	if !validID(made.ID) {
		return connector.RefundState{}, errors.New("YooKassa made a refund without a valid id")
	}
	var now refund
	if err := s.api.get(ctx, "/refunds/"+made.ID, &now); err != nil {
		return connector.RefundState{}, fmt.Errorf("reading refund %s: %w", made.ID, err)
	}
	if now.ID != made.ID || now.PaymentID != r.Attempt.Reference {
		return connector.RefundState{}, fmt.Errorf("YooKassa answered another refund than %s", made.ID)
	}
	st, err := now.state()
	st.ID = r.ID
	return st, err
}

// refused returns what became of a refund that YooKassa does not take.
func (s *shop) refused(ctx context.Context, r connector.Refund, refusal *answerError) (connector.RefundState, error) {
	closed := connector.RefundState{
		ID: r.ID, Phase: connector.Closed, Reason: refusal.reason(), Amount: r.Amount, Currency: r.Currency,
	}
	all, err := s.Refunds(ctx, r.Attempt)
	if errors.Is(err, connector.ErrNotFound) {
		return closed, nil
	}
	if err != nil {
		return connector.RefundState{}, err
	}
	returned := false
	for _, st := range all {
		if st.ID == r.ID {
			return st, nil
		}
		returned = returned || st.Phase != connector.Closed
	}
	if refusal.keyUsed() {
		// Another refund of this id exists or existed, and cannot be found.
		return connector.RefundState{}, refusal
	}
	if !returned { // by a way that makes no refund, as a bank's order
		p, err := s.payment(ctx, r.Attempt)
		if err != nil {
			return connector.RefundState{}, err
		}
		returned = p.Refunded != nil && strings.Trim(p.Refunded.Value, "0.") != ""
	}
	if returned {
		closed.Reason = connector.ReasonRefundedAtProvider
	}
	return closed, nil
}

// Disputes returns none: YooKassa's API has no disputes.
func (*shop) Disputes(context.Context, connector.Attempt) ([]connector.DisputeState, error) {
	return nil, nil
}

// Refunds returns the refunds of the payment.
func (s *shop) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	if !validID(a.Reference) {
		return nil, connector.ErrNotFound
	}
	var all []connector.RefundState
	query := url.Values{"payment_id": {a.Reference}, "limit": {"100"}}
	for range maxPages {
		var page refundPage
		err := s.api.get(ctx, "/refunds?"+query.Encode(), &page)
		if e, ok := errors.AsType[*answerError](err); ok && e.status == http.StatusNotFound {
			return nil, connector.ErrNotFound
		}
		if err != nil {
			return nil, err
		}
		for _, r := range page.Items {
			if r.PaymentID != a.Reference {
				return nil, fmt.Errorf("YooKassa answered refunds of another payment than %s", a.Reference)
			}
			st, err := r.state()
			if err != nil {
				return nil, err
			}
			all = append(all, st)
		}
		if page.Next == "" {
			if len(all) == 0 { // a payment without refunds, or no payment at all
				_, err = s.payment(ctx, a)
			}
			return all, err
		}
		query.Set("cursor", page.Next)
	}
	return nil, fmt.Errorf("payment %s has more than %d pages of refunds at YooKassa", a.Reference, maxPages)
}
