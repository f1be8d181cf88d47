package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
)

// searchAfter is how long a refund is asked for under its key. Later it is searched
// for first: the provider may have forgotten the key.
const searchAfter = 20 * time.Hour

// pendingRefund is a refund or a return that is pending.
type pendingRefund struct {
	domain.Refund

	attempt string // the reference of the attempt whose money it is
}

// refundsOf are those of the payment.
func refundsOf(p domain.Payment) []pendingRefund {
	var all []pendingRefund
	for _, r := range p.Refunds {
		if !r.Status.Final() {
			all = append(all, pendingRefund{r, p.PaidReference()})
		}
	}
	for _, r := range p.Returns {
		if !r.Status.Final() {
			all = append(all, pendingRefund{r.Refund, r.Reference})
		}
	}
	return all
}

// refund asks for a pending refund, or how far it is, and records the answer.
func (c *Collector) refund(ctx context.Context, conn connector.Connector, p domain.Payment, r pendingRefund) error {
	ask := connector.Refund{
		ID: r.ID, Attempt: c.moneyOf(p, r.attempt), AskedAt: r.CreatedAt.Time(), Amount: r.Amount, Currency: r.Currency,
	}
	if c.config.Now().Sub(ask.AskedAt) >= searchAfter {
		found, err := c.refunds(ctx, conn, p, r.attempt)
		if err != nil {
			return err
		}
		for _, st := range found {
			if st.ID == r.ID {
				return c.refunded(ctx, p, r, st)
			}
		}
	}
	var st connector.RefundState
	err := c.call(ctx, p.Route, "refund", func(ctx context.Context) (err error) {
		st, err = conn.Refund(ctx, ask)
		return err
	})
	if refused, ok := errors.AsType[*connector.RefusedError](err); ok {
		st, err = connector.RefundState{ID: r.ID, Phase: connector.Closed, Reason: refused.Reason}, nil
	}
	if err != nil {
		return err
	}
	if st.ID != r.ID {
		return fmt.Errorf("the connector answers for the refund %s when asked for %s", st.ID, r.ID)
	}
	return c.refunded(ctx, p, r, st)
}

// moneyOf is the attempt that collected money under the reference.
func (c *Collector) moneyOf(p domain.Payment, reference string) connector.Attempt {
	a, _ := p.AttemptOf(reference) // one that is not ours has a reference alone
	a.Reference = reference
	return c.attemptOf(p, a)
}

// refunds are all refunds of the money under a reference. Those that the provider
// made by another hand are recorded.
func (c *Collector) refunds(ctx context.Context, conn connector.Connector, p domain.Payment, reference string) (all []connector.RefundState, err error) {
	err = c.call(ctx, p.Route, "refunds", func(ctx context.Context) (err error) {
		all, err = conn.Refunds(ctx, c.moneyOf(p, reference))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, st := range all {
		_, refund := p.Refund(st.ID)
		_, back := p.Return(st.ID)
		if refund || back || st.Phase != connector.Paid {
			continue
		}
		_, err := c.execute(ctx, p, func(domain.ID) domain.PaymentCommand {
			return domain.RecordProviderRefund{ProviderRefund: domain.ProviderRefund{
				Reference: reference, RefundReference: st.Reference, Amount: st.Amount, Currency: st.Currency,
			}}
		})
		if _, refused := errors.AsType[*domain.AttemptError](err); refused {
			c.config.Log.Warn().Err(err).Str("route", p.Route).Stringer("payment", p.ID).Msg("a refund that the provider made by another hand was not recorded")
		} else if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// refunded signals the provider's last word on a refund; before that it is nothing.
func (c *Collector) refunded(ctx context.Context, p domain.Payment, r pendingRefund, st connector.RefundState) error {
	s := domain.Signal{Reference: st.Reference, RefundID: &r.ID, Amount: st.Amount, Currency: st.Currency}
	if s.Reference == "" {
		s.Reference = r.ID.String()
	}
	reason := ""
	switch st.Phase {
	case connector.Open:
		return nil
	case connector.Paid:
		s.Outcome = domain.OutcomeSucceeded
	case connector.Closed:
		s.Outcome, reason = domain.OutcomeFailed, connector.ReasonCode(st.Reason)
		s.Amount, s.Currency = r.Amount, r.Currency // none was moved
	default:
		return fmt.Errorf("the connector answers the unknown phase %q", st.Phase)
	}
	_, err := c.signal(ctx, p, s, reason)
	return err
}
