package connector

import (
	"context"
	"time"

	"payledger/domain"
)

// Sandbox plays the provider of the sandbox route. It decides nothing by
// itself: payments and refunds wait until SignalPayment or SignalRefund is
// called. Its signals take the way of any provider's.
type Sandbox struct {
	signals *Sender
	now     func() time.Time
}

// NewSandbox makes the sandbox's connector.
func NewSandbox(e Env) *Sandbox { return &Sandbox{signals: NewSender(e.NATS), now: e.Now} }

func newSandbox(e Env) (Connector, error) {
	if !e.Sandbox {
		return nil, nil //nolint:nilnil // it is turned off
	}
	return NewSandbox(e), nil
}

// Route is domain.SandboxRoute.
func (*Sandbox) Route() string { return domain.SandboxRoute }

// Assigned does nothing: somebody will say what becomes of the payment.
func (*Sandbox) Assigned(ctx context.Context, _ domain.Payment) error { return ctx.Err() }

// RefundRequested does nothing: somebody will say what becomes of the refund.
func (*Sandbox) RefundRequested(ctx context.Context, _ domain.Payment, _ domain.Refund) error {
	return ctx.Err()
}

// SignalPayment signals an outcome of the payment as the provider of its
// route would, or as the sandbox's while it has none, and answers what the
// enforcer replied. The attempt begins now, or with the payment where that is
// ahead of the clock. It resends until answered; the
// error is the context's when ctx ends first.
func (s *Sandbox) SignalPayment(ctx context.Context, p domain.Payment, o domain.Outcome, reference string) (domain.SignalReply, error) {
	return s.send(ctx, p, domain.Signal{Outcome: o, Reference: reference})
}

// SignalRefund signals an outcome of one of the payment's refunds in the same
// way.
func (s *Sandbox) SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, o domain.Outcome, reference string) (domain.SignalReply, error) {
	return s.send(ctx, p, domain.Signal{Outcome: o, Reference: reference, RefundID: &refund})
}

func (s *Sandbox) send(ctx context.Context, p domain.Payment, sig domain.Signal) (domain.SignalReply, error) {
	sig.Route, sig.Amount, sig.Currency = p.Route, p.Amount, p.Currency
	sig.StartedAt = max(domain.InstantOf(s.now()), p.CreatedAt)
	if sig.Route == "" {
		sig.Route = domain.SandboxRoute
	}
	return s.signals.Send(ctx, p.Project, p.ID, sig)
}
