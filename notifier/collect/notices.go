package collect

import (
	"context"
	"errors"
	"net/http"
	"time"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
	"payledger/notifier/health"
)

// Notify takes a notification that came for a route. It returns once what the
// notification is about was read at the provider, judged and synced. What concerns
// no payment of the route is no error.
//
// Errors: ErrNoConnector; connector.ErrForged; a *connector.RefusedError for one
// that is malformed; all others mean that the provider has to send it again.
func (c *Collector) Notify(ctx context.Context, route string, header http.Header, body []byte) error {
	conn, ok := c.config.Routes.Connector(route)
	if !ok {
		return ErrNoConnector
	}
	end := func(as string, err error) error {
		c.metrics.notices.WithLabelValues(route, as).Inc()
		return err
	}
	notices, err := conn.Notices(ctx, header, body)
	switch {
	case errors.Is(err, connector.ErrForged):
		return end("forged", err)
	case errors.As(err, new(*connector.RefusedError)):
		return end("malformed", err)
	case err != nil:
		return end("failed", err)
	}
	ours := false
	for _, n := range notices[:min(len(notices), connector.MaxNotices)] {
		id, ok, err := c.paymentOf(ctx, route, n)
		if err == nil && ok {
			ours = true
			err = c.read(ctx, id, n)
		}
		if err != nil {
			return end("failed", err)
		}
	}
	if !ours {
		return end("foreign", nil)
	}
	return end("judged", nil)
}

// paymentOf finds the payment that a notice is about.
func (c *Collector) paymentOf(ctx context.Context, route string, n connector.Notice) (domain.ID, bool, error) {
	id := n.Payment
	if id.IsZero() {
		var ok bool
		var err error
		if id, ok, err = c.config.Views.PaymentOfReference(ctx, route, n.Reference); err != nil || !ok {
			return id, false, err
		}
	}
	p, ok, err := c.config.Views.Payment(ctx, id)
	return id, ok && p.Route == route, err
}

// Ask reads at the provider all that can be learned of a payment, now. The errors
// are ErrNoConnector, ErrDown and what the connector answers.
func (c *Collector) Ask(ctx context.Context, id domain.ID) error {
	return c.read(ctx, id, connector.Notice{Payment: id, Refunds: true, Disputes: true})
}

// read polls the attempt or refund of a notice.
func (c *Collector) read(ctx context.Context, id domain.ID, n connector.Notice) (err error) {
	t, err := c.tasks.lock(ctx, id)
	if err != nil {
		return err
	}
	defer c.tasks.unlock(t)
	p, ok, err := c.config.Views.Payment(ctx, id)
	if err != nil || !ok {
		return err
	}
	conn, ok := c.config.Routes.Connector(p.Route)
	if !ok {
		return ErrNoConnector
	}
	if !health.Pause(ctx, t.rest()) {
		return ctx.Err()
	}
	limits := c.limiters.of(p.Route)
	leave, err := limits.await(ctx, limits.notices, limits.all)
	if err != nil {
		return err
	}
	defer leave()
	defer t.next(MinInterval)
	defer func() { t.tried(err) }()

	if a, open := p.OpenAttempt(); open && (n.Reference == "" || a.Reference == "" || a.Reference == n.Reference) {
		if err := c.attempt(ctx, t, conn, p, a); err != nil {
			return err
		}
		if p, _, err = c.config.Views.Payment(ctx, id); err != nil {
			return err
		}
	}
	if err := c.readClosed(ctx, conn, p, n.Reference); err != nil {
		return err
	}
	if n.Disputes {
		if err := c.readDisputes(ctx, conn, p); err != nil {
			return err
		}
	}
	if n.Refunds {
		return c.readRefunds(ctx, conn, p, n.Reference)
	}
	return nil
}

// readDisputes reads the disputes of the money that paid the payment, and signals what is new.
func (c *Collector) readDisputes(ctx context.Context, conn connector.Connector, p domain.Payment) error {
	if p.PaidReference == "" {
		return nil
	}
	var all []connector.DisputeState
	err := c.call(ctx, p, "disputes", func(ctx context.Context) (err error) {
		all, err = conn.Disputes(ctx, c.moneyOf(p, p.PaidReference))
		return err
	})
	if errors.Is(err, connector.ErrNotFound) {
		return nil
	}
	for _, st := range all {
		known, ok := p.Dispute(st.Reference)
		outcomes := []domain.Outcome{domain.OutcomeDisputed, st.Outcome}
		switch {
		case known.Status == domain.DisputeWon, known.Status == domain.DisputeLost && st.Outcome != domain.OutcomeDisputeWon:
			continue
		case ok:
			outcomes = outcomes[1:]
		case st.Outcome == domain.OutcomeDisputed:
			outcomes = outcomes[:1]
		}
		for _, outcome := range outcomes {
			s := domain.Signal{Outcome: outcome, Reference: st.Reference, Amount: st.Amount, Currency: st.Currency, StartedAt: instant(st.OpenedAt)}
			var said bus.Said
			if outcome == domain.OutcomeDisputed {
				said.EvidenceDueBy = instant(st.EvidenceDueBy)
				if st.Reason != "" {
					said.Reason = connector.ReasonCode(st.Reason)
				}
			}
			if _, err := c.signal(ctx, p, s, said); err != nil {
				return err
			}
		}
	}
	return err
}

// instant is 0 for the zero time.
func instant(at time.Time) domain.Instant {
	if at.IsZero() {
		return 0
	}
	return domain.InstantOf(at)
}

// readClosed reads an attempt that is not in the ledger, or has failed there: if it was paid, the
// money is booked.
func (c *Collector) readClosed(ctx context.Context, conn connector.Connector, p domain.Payment, reference string) error {
	a, known := p.AttemptOf(reference)
	if reference == "" || known && a.Status != domain.AttemptFailed {
		return nil
	}
	if !known {
		a = domain.Attempt{Reference: reference, BegunAt: domain.InstantOf(c.config.Now())}
	}
	st, err := c.ask(ctx, conn, p, a, false)
	switch {
	case errors.Is(err, connector.ErrNotFound):
		return nil
	case err != nil:
		return err
	case st.Phase != connector.Paid || st.Reference != reference:
		return nil
	}
	return c.collected(ctx, p, a, st)
}

// readRefunds reads the refunds of a reference, or of all money of the payment.
func (c *Collector) readRefunds(ctx context.Context, conn connector.Connector, p domain.Payment, reference string) error {
	references := []string{reference}
	if reference == "" {
		references = p.BookedReferences()
	}
	for _, r := range references {
		all, err := c.refunds(ctx, conn, p, r)
		if errors.Is(err, connector.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		for _, st := range all {
			ours, ok := p.RefundOrReturn(st.ID)
			if !ok {
				continue
			}
			if err := c.refunded(ctx, p, ours, st); err != nil {
				return err
			}
		}
	}
	return nil
}
