package collect

import (
	"context"
	"errors"
	"fmt"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/health"
)

var errPaused = &domain.AttemptError{Reason: domain.AttemptPaused}

// ended reports whether an attempt has come to nothing, which is recorded.
func ended(err error) bool {
	e, ok := errors.AsType[*domain.AttemptError](err)
	return ok && e.Reason == domain.AttemptEnded
}

// errAnotherKey: the attempt was replaced under another key, unseen by the customer.
var errAnotherKey = errors.New("the attempt's key is spent")

// Begin prepares the redirect of a payment's customer to its provider: it continues the attempt
// that is open, or begins one. The same attempt gives the same hand-off. It is nil when the
// customer has only to wait, and when the payment has ended meanwhile: the payment's state says
// which.
//
// language and merchant are what the customer reads at the provider. A call that was begun
// continues when ctx ends.
//
// Errors: ErrNoConnector; ErrDown, also of a provider that did not answer: the attempt stays
// open, and Begin may be called again; a *domain.AttemptError; those of the store.
func (c *Collector) Begin(ctx context.Context, id domain.ID, language, merchant string) (*domain.HandOff, error) {
	t, err := c.tasks.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer c.tasks.unlock(t)
	ctx = context.WithoutCancel(ctx)
	p, ok, err := c.config.Views.Payment(ctx, id)
	if err != nil || !ok {
		return nil, errors.Join(err, ctx.Err())
	}
	conn, ok := c.config.Routes.Connector(p.Route)
	if !ok {
		return nil, ErrNoConnector
	}
	if domain.InstantOf(c.config.Now()) >= p.ExpiresAt {
		return nil, &domain.AttemptError{Reason: domain.AttemptTooLate}
	}
	a, open := p.OpenAttempt()
	if open {
		if h := c.tasks.shown(id, a.Number); h != nil {
			return h, nil
		}
	}
	if !open && c.config.Paused(p.Route) {
		return nil, errPaused
	}
	if !health.Pause(ctx, t.rest()) {
		return nil, ctx.Err()
	}
	wait, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	limits := c.limiters.of(p.Route)
	leave, err := limits.await(wait, limits.all)
	if err != nil {
		return nil, ErrDown
	}
	defer leave()
	for range 2 { // the second time with another key
		var h *domain.HandOff
		h, err = c.handOver(ctx, t, conn, p, language, merchant)
		t.tried(err)
		if !errors.Is(err, errAnotherKey) {
			t.next(MinInterval)
			return h, c.forCustomer(p, err)
		}
		if c.config.Paused(p.Route) {
			return nil, errPaused
		}
	}
	return nil, c.forCustomer(p, err)
}

// Shown is where the customer of the payment's attempt was sent, if that is in
// memory and still good; nil if not. No provider is asked.
func (c *Collector) Shown(id domain.ID, attempt int) *domain.HandOff {
	return c.tasks.shown(id, attempt)
}

func (c *Collector) handOver(
	ctx context.Context, t *task, conn connector.Connector, p domain.Payment, language, merchant string,
) (*domain.HandOff, error) {
	r, err := c.execute(ctx, p, func(event domain.ID) domain.PaymentCommand {
		return domain.BeginAttempt{At: domain.IDTime(event), Language: language, Merchant: merchant}
	})
	if err != nil {
		return nil, err
	}
	if r.Event != nil {
		c.metrics.attempts.WithLabelValues(p.Route, "begun").Inc()
	}
	p = r.State
	a, open := p.OpenAttempt()
	switch {
	case !open:
		return nil, nil
	case a.Status == domain.AttemptBegun:
		return c.offer(ctx, t, conn, p, a)
	}
	return c.poll(ctx, t, conn, p, a)
}

// forCustomer is the error as a customer may see it; others are logged.
func (c *Collector) forCustomer(p domain.Payment, err error) error {
	if err == nil || errors.As(err, new(*domain.AttemptError)) {
		return err
	}
	c.config.Log.Warn().Err(err).Str("route", p.Route).Stringer("payment", p.ID).Msg("a customer could not be redirected to the provider")
	return fmt.Errorf("%w: %w", ErrDown, err)
}

// offer makes a begun attempt at its provider, and records what it answered.
func (c *Collector) offer(ctx context.Context, t *task, conn connector.Connector, p domain.Payment, a domain.Attempt) (*domain.HandOff, error) {
	var st connector.State
	err := c.call(ctx, p, "begin", func(ctx context.Context) (err error) {
		st, err = conn.Begin(ctx, c.attemptOf(p, a))
		return err
	})
	var refused *connector.RefusedError
	switch {
	case errors.As(err, &refused):
		c.config.Log.Warn().Err(err).Str("route", p.Route).Stringer("payment", p.ID).Msg("the provider refuses an attempt")
		return nil, c.failed(ctx, p, a, refused.Reason)
	case errors.As(err, new(*connector.SpentKeyError)):
		if err := c.fail(ctx, p, a, domain.ReasonAbandoned); err != nil {
			return nil, err
		}
		return nil, errAnotherKey
	case err != nil:
		return nil, err
	}
	command := domain.OfferAttempt{Number: a.Number, Reference: st.Reference}
	if st.Phase == connector.Open && st.HandOff != nil && connector.ValidHandOff(*st.HandOff) == nil {
		command.HandOff = st.HandOff.Kind
		if !st.HandOff.ExpiresAt.IsZero() {
			command.ExpiresAt = domain.InstantOf(st.HandOff.ExpiresAt)
		}
	}
	r, err := c.execute(ctx, p, func(domain.ID) domain.PaymentCommand { return command })
	if err != nil {
		return nil, fmt.Errorf("recording what the provider answered: %w", err)
	}
	if r.Event != nil {
		c.metrics.attempts.WithLabelValues(p.Route, "offered").Inc()
	}
	if known, ok := r.State.AttemptOf(st.Reference); ok {
		a = known
	}
	return c.settle(ctx, t, r.State, a, st)
}
