package collect

import (
	"context"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// signalTime is how long the answer to a signal is waited for; the outcome is then
// read again.
const signalTime = 30 * time.Second

// call makes one call of a connector, within its time.
func (c *Collector) call(ctx context.Context, route, name string, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	err := do(limited)
	if ctx.Err() != nil {
		return ctx.Err() // the provider is not to blame
	}
	c.gates.of(route).called(err)
	c.metrics.calls.WithLabelValues(route, name, endOf(err)).Inc()
	return err
}

// execute runs a command on the payment, again while the store is busy or full.
func (c *Collector) execute(
	ctx context.Context, p domain.Payment, command func(event domain.ID) domain.PaymentCommand,
) (r eventstore.Result[domain.Payment], err error) {
	err = health.Persist(ctx, func() (err error) {
		event := c.config.IDs.Next()
		r, err = eventstore.Execute(ctx, c.config.Ledger, eventstore.PaymentStream(p.Project, p.ID),
			domain.Payment{Project: p.Project, ID: p.ID}, command(event), eventstore.Order{EventID: event})
		return err
	})
	return r, err
}

// fail records that an attempt has failed, unless it is not open any more.
func (c *Collector) fail(ctx context.Context, p domain.Payment, a domain.Attempt, reason string) error {
	r, err := c.execute(ctx, p, func(domain.ID) domain.PaymentCommand {
		return domain.FailAttempt{Number: a.Number, Reason: reason}
	})
	if err == nil && r.Event != nil {
		c.metrics.attempts.WithLabelValues(p.Route, "failed").Inc()
	}
	return err
}

// signal sends an outcome, and answers what the judge recorded.
func (c *Collector) signal(ctx context.Context, p domain.Payment, s domain.Signal, reason string) (domain.SignalReply, error) {
	s.Route = p.Route
	if err := s.Validate(); err != nil {
		return domain.SignalReply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, signalTime)
	defer cancel()
	return c.config.Signal(ctx, p.Project, p.ID, s, reason)
}
