package collect

import (
	"context"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/tracing"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// signalTime is how long the answer to a signal is waited for; the outcome is then
// read again.
const signalTime = 30 * time.Second

// call makes one call of a connector, within its time.
func (c *Collector) call(ctx context.Context, p domain.Payment, name string, do func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	var span tracing.Span
	if c.config.Tracer != nil {
		span = c.config.Tracer.Follow(tracing.Client, c.traceOf(ctx, p), "provider "+name)
	}
	err := do(limited)
	if ctx.Err() != nil {
		span.End("cancelled")
		return ctx.Err() // the provider is not to blame
	}
	end := endOf(err)
	if span.Recorded() {
		failure := end
		if err == nil {
			failure = ""
		}
		span.End(failure, tracing.Route.String(p.Route), tracing.Call.String(name), tracing.Project.String(p.Project), tracing.Payment.String(p.ID.String()))
	}
	c.limiters.of(p.Route).called(err)
	c.metrics.calls.WithLabelValues(p.Route, name, end).Inc()
	return err
}

// traceOf is the trace of the payment's last event; "" without one.
func (c *Collector) traceOf(ctx context.Context, p domain.Payment) domain.Traceparent {
	var last eventstore.Stored
	for r, err := range c.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(p.Project, p.ID)) {
		if err != nil {
			return ""
		}
		last = r
	}
	return eventstore.CauseOf(last.Body).Trace
}

// recordTime is how long a busy or full store is waited for. What was not recorded by then is done
// again at the next step, by this node or by the leader after it.
const recordTime = 5 * time.Second

// execute runs a command on the payment, for some time again while the store is busy or full.
func (c *Collector) execute(
	ctx context.Context, p domain.Payment, command func(event domain.ID) domain.PaymentCommand,
) (r eventstore.Result[domain.Payment], err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
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

// signal sends an outcome, and returns what the judge recorded.
func (c *Collector) signal(ctx context.Context, p domain.Payment, s domain.Signal, said bus.Said) (domain.SignalReply, error) {
	s.Route = p.Route
	if err := s.Validate(); err != nil {
		return domain.SignalReply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, signalTime)
	defer cancel()
	return c.config.Signal(ctx, p.Project, p.ID, s, said)
}
