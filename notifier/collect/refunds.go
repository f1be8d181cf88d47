package collect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
)

// searchAfter is how long a refund is asked for under its key. Later it is searched
// for first: the provider may have forgotten the key.
const searchAfter = 20 * time.Hour

// refund asks for a pending refund, or how far it is, and records the answer.
func (c *Collector) refund(ctx context.Context, conn connector.Connector, p domain.Payment, r domain.Return) error {
	ask := connector.Refund{
		ID: r.ID, Attempt: c.moneyOf(p, r.Reference), AskedAt: r.CreatedAt, Amount: r.Amount, Currency: r.Currency,
	}
	if c.config.Now().Sub(ask.AskedAt.Time()) >= searchAfter {
		found, err := c.refunds(ctx, conn, p, r.Reference)
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
	err := c.call(ctx, p, "refund", func(ctx context.Context) (err error) {
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
	if st.Phase == connector.Closed {
		// Another hand may have returned the money, and no notification have come.
		if _, err := c.refunds(ctx, conn, p, r.Reference); err != nil && !errors.Is(err, connector.ErrNotFound) {
			return err
		}
	}
	return c.refunded(ctx, p, r, st)
}

// moneyOf is the attempt that collected money under the reference.
func (c *Collector) moneyOf(p domain.Payment, reference string) connector.Attempt {
	a, _ := p.AttemptOf(reference) // one that is not ours has only a reference
	a.Reference = reference
	return c.attemptOf(p, a)
}

// refunds are all refunds of the money under a reference. Those that the provider
// made by another hand are recorded, and those that failed here and have returned
// the money there.
func (c *Collector) refunds(ctx context.Context, conn connector.Connector, p domain.Payment, reference string) (all []connector.RefundState, err error) {
	err = c.call(ctx, p, "refunds", func(ctx context.Context) (err error) {
		all, err = conn.Refunds(ctx, c.moneyOf(p, reference))
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, st := range all {
		if ours, ok := p.RefundOrReturn(st.ID); st.Phase != connector.Paid || ok && ours.Status != domain.RefundFailed {
			continue
		}
		earlier, err := eventstore.UnlistedLateFund(ctx, c.config.Ledger, p, reference)
		if err != nil {
			return nil, err
		}
		_, err = c.execute(ctx, p, func(domain.ID) domain.PaymentCommand {
			return domain.RecordProviderRefund{Earlier: earlier, ProviderRefund: domain.ProviderRefund{
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
// Of one that has succeeded here it is of interest that its money came back.
func (c *Collector) refunded(ctx context.Context, p domain.Payment, r domain.Return, st connector.RefundState) error {
	s := domain.Signal{Reference: cmp.Or(st.Reference, r.ID.String()), RefundID: &r.ID, Amount: st.Amount, Currency: st.Currency}
	reason := ""
	switch {
	case st.Phase == connector.Open, r.Returned, r.Status.Final() && (r.Status != domain.RefundSucceeded || st.Phase != connector.Closed):
		return nil
	case st.Phase == connector.Paid:
		s.Outcome = domain.OutcomeSucceeded
	case st.Phase == connector.Closed:
		s.Outcome, reason = domain.OutcomeFailed, connector.ReasonCode(st.Reason)
		if r.Status == domain.RefundSucceeded {
			s.Outcome = domain.OutcomeReturned
		}
		s.Amount, s.Currency = r.Amount, r.Currency // none was moved
	default:
		return fmt.Errorf("the connector answers the unknown phase %q", st.Phase)
	}
	reply, err := c.signal(ctx, p, s, bus.Said{Reason: reason})
	if err != nil || reply.Result == domain.SignalApplied {
		return err
	}
	now, _, err := c.config.Views.Payment(ctx, p.ID)
	if still, _ := now.RefundOrReturn(r.ID); err == nil && !still.Status.Final() {
		err = fmt.Errorf("the provider says that the refund %s is %s with %s %s, and that was refused: see the payment's events", r.ID, st.Phase, st.Amount, st.Currency)
	}
	return err
}
