package collect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
)

// step makes the calls that the payment's state requires: one about its open attempt, one about
// each refund and return that is pending, and when there is nothing of these, one about its open
// disputes. again is when to poll next. The error is logged here;
// only one that ends the store matters further.
func (c *Collector) step(ctx context.Context, t *task, conn connector.Connector, p domain.Payment) (again time.Duration, err error) {
	now := c.config.Now()
	again = rescan
	var errs []error
	if a, open := p.OpenAttempt(); open {
		errs = append(errs, c.attempt(ctx, t, conn, p, a))
		again = pauseFor(now.Sub(a.BegunAt.Time()), 5*time.Minute)
		if before := p.DoorCloses().Time().Sub(now); before > 0 {
			again = min(again, before)
		} else {
			again = pauseFor(-before, 10*time.Minute)
			if -before >= alarmAfter && !t.alarmed {
				t.alarmed = true
				c.metrics.overdue.WithLabelValues(p.Route).Inc()
				c.config.Log.Error().Str("route", p.Route).Stringer("payment", p.ID).
					Msg("the payment's time is over, but its attempt can be neither cancelled nor read at the provider; see what the provider's own pages say of it")
			}
		}
	}
	for _, r := range p.RefundsAndReturns() {
		if r.Status.Final() {
			continue
		}
		errs = append(errs, c.refund(ctx, conn, p, r))
		again = min(again, pauseFor(now.Sub(r.CreatedAt.Time()), 15*time.Minute))
	}
	if o := p.Outstanding(); o.Disputes > 0 && o.CancelAt == 0 && o.Refunds+o.Returns == 0 {
		errs = append(errs, c.readDisputes(ctx, conn, p))
		again = disputeInterval // the provider notifies of the end; it takes weeks
	}
	again = max(again, MinInterval)
	err = errors.Join(errs...)
	if err == nil {
		t.failures = 0
		return again, nil
	}
	if ctx.Err() == nil && t.failures == 0 {
		c.config.Log.Warn().Err(err).Str("route", p.Route).Stringer("payment", p.ID).
			Msg("a provider could not be asked about a payment; it is asked until it answers")
	}
	t.failures++
	return max(again, min(MinInterval<<min(t.failures, 8), 5*time.Minute)), err
}

// pauseFor grows with the age of what is polled, up to most.
func pauseFor(age, most time.Duration) time.Duration { return min(max(age/5, MinInterval), most) }

// attempt makes the one call that an open attempt needs. An attempt that failed is
// no error.
func (c *Collector) attempt(ctx context.Context, t *task, conn connector.Connector, p domain.Payment, a domain.Attempt) (err error) {
	switch {
	case a.Status != domain.AttemptBegun:
		_, err = c.poll(ctx, t, conn, p, a)
	case c.config.Now().Sub(a.BegunAt.Time()) >= domain.AttemptKeyLife:
		err = c.fail(ctx, p, a, domain.ReasonAbandoned)
	default:
		_, err = c.offer(ctx, t, conn, p, a)
	}
	if ended(err) || errors.Is(err, errAnotherKey) {
		return nil // its end is recorded
	}
	return err
}

// poll asks the provider about an offered attempt, or cancels it where it must not be paid any
// more, and records the answer.
func (c *Collector) poll(ctx context.Context, t *task, conn connector.Connector, p domain.Payment, a domain.Attempt) (*domain.HandOff, error) {
	st, err := c.ask(ctx, conn, p, a, t.unwanted == a.Number)
	closed := c.config.Now().Sub(p.DoorCloses().Time())
	switch {
	case errors.Is(err, connector.ErrNotFound) && closed > domain.MaxAttemptWait:
		// Not earlier: it was offered, so it was there, and perhaps the route has the
		// key of another account by mistake. The customer may be about to pay it.
		return nil, c.failed(ctx, p, a, "not_found")
	case err != nil && closed > MaxSilence:
		return nil, c.failed(ctx, p, a, domain.ReasonUnreachable)
	case err != nil:
		return nil, err
	}
	return c.settle(ctx, t, p, a, st)
}

// ask reads an attempt, or cancels it where its money is not wanted any more: to
// read one may claim the money that the provider only holds.
func (c *Collector) ask(
	ctx context.Context, conn connector.Connector, p domain.Payment, a domain.Attempt, unwanted bool,
) (st connector.State, err error) {
	name, ask := "read", conn.Read
	if unwanted || p.Status.Final() || domain.InstantOf(c.config.Now()) >= p.DoorCloses() {
		name, ask = "cancel", conn.Cancel
	}
	err = c.call(ctx, p, name, func(ctx context.Context) (err error) {
		st, err = ask(ctx, c.attemptOf(p, a))
		if a.Number == 0 && unknown(err) {
			err = &strangerError{err}
		}
		return err
	})
	return st, err
}

// settle records the provider's word on an attempt.
func (c *Collector) settle(ctx context.Context, t *task, p domain.Payment, a domain.Attempt, st connector.State) (*domain.HandOff, error) {
	if st.Reference != a.Reference {
		return nil, fmt.Errorf("the connector answers for the reference %q when asked for %q", st.Reference, a.Reference)
	}
	switch st.Phase {
	case connector.Open:
		h := st.HandOff
		if h != nil {
			if err := connector.ValidHandOff(*h); err != nil {
				c.config.Log.Error().Err(err).Str("route", p.Route).Stringer("payment", p.ID).
					Msg("no customer can be sent where the provider wants; the attempt is cancelled")
				t.unwanted = a.Number
				t.keep(a.Number, nil)
				return nil, err
			}
		}
		t.keep(a.Number, h)
		return h, nil
	case connector.Closed:
		return nil, c.failed(ctx, p, a, st.Reason)
	case connector.Paid:
		return nil, c.collected(ctx, p, a, st)
	}
	return nil, fmt.Errorf("the connector answers the unknown phase %q", st.Phase)
}

// collected signals the money of an attempt. An attempt whose money was booked
// before, or refused, is closed too: there is nothing more to learn of it.
func (c *Collector) collected(ctx context.Context, p domain.Payment, a domain.Attempt, st connector.State) error {
	reply, err := c.signal(ctx, p, domain.Signal{
		Outcome: domain.OutcomePaid, Reference: st.Reference, Amount: st.Amount, Currency: st.Currency, StartedAt: a.BegunAt,
	}, bus.Said{})
	if err != nil {
		return err
	}
	if reply.Result == domain.SignalApplied || reply.Result == domain.SignalLateFunds {
		c.metrics.attempts.WithLabelValues(p.Route, "paid").Inc()
	}
	if a.Number == 0 {
		return nil
	}
	reason := "booked_before"
	if reply.Reason != "" {
		reason = connector.ReasonCode(reply.Reason)
	}
	return c.fail(ctx, p, a, reason) // changes nothing if the attempt was just collected
}

// failed records that no money can come of an attempt; the error is a
// *domain.AttemptError, or that of the store.
func (c *Collector) failed(ctx context.Context, p domain.Payment, a domain.Attempt, reason string) error {
	if err := c.fail(ctx, p, a, connector.ReasonCode(reason)); err != nil {
		return err
	}
	return &domain.AttemptError{Reason: domain.AttemptEnded}
}
