package stripe

import (
	"context"
	"errors"
	"fmt"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"payledger/domain"
	"payledger/notifier/connector"
)

// Disputes lists the disputes of the session's PaymentIntent.
func (c *account) Disputes(ctx context.Context, a connector.Attempt) ([]connector.DisputeState, error) {
	s, _, err := c.session(ctx, a)
	if err != nil || s.PaymentIntent == nil {
		return nil, err
	}
	params := &api.DisputeListParams{PaymentIntent: api.String(s.PaymentIntent.ID)}
	params.Limit = new(int64(domain.MaxDisputes))
	noted, answer := noting(ctx)
	var all []connector.DisputeState
	list := c.client.V1Disputes.List(noted, params)
	for d, err := range list.All(noted) {
		if err != nil {
			break // it is list's too
		}
		st, err := disputeState(d)
		if err != nil {
			return nil, err
		}
		if st.Outcome == "" {
			continue
		}
		if all = append(all, st); len(all) > domain.MaxDisputes {
			return nil, fmt.Errorf("Stripe lists more than %d disputes of one payment", domain.MaxDisputes)
		}
	}
	if err := answer.failure("listing disputes", list.Err()); err != nil {
		return nil, err
	}
	return all, nil
}

// disputeState reads a dispute. It has no outcome where Stripe has taken no money: an inquiry, and
// what was prevented.
func disputeState(d *api.Dispute) (st connector.DisputeState, err error) {
	if d.ID == "" || len(d.ID) > domain.MaxReference {
		return st, errors.New("Stripe answers with something that is no dispute")
	}
	st = connector.DisputeState{
		Reference: d.ID, Reason: string(d.Reason), Amount: domain.Amount(d.Amount), Currency: currency(d.Currency), OpenedAt: time.Unix(d.Created, 0).UTC(),
	}
	if e := d.EvidenceDetails; e != nil && e.DueBy > 0 {
		st.EvidenceDueBy = time.Unix(e.DueBy, 0).UTC()
	}
	switch d.Status {
	case api.DisputeStatusWarningNeedsResponse, api.DisputeStatusWarningUnderReview, api.DisputeStatusWarningClosed, api.DisputeStatusPrevented:
	case api.DisputeStatusNeedsResponse, api.DisputeStatusUnderReview:
		st.Outcome = domain.OutcomeDisputed
	case api.DisputeStatusWon:
		st.Outcome = domain.OutcomeDisputeWon
	case api.DisputeStatusLost:
		st.Outcome = domain.OutcomeDisputeLost
	default:
		return st, errors.New("Stripe answers with a dispute of a status that is not known")
	}
	return st, nil
}
