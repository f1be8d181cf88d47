package connector

import (
	"cmp"
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/notifier/bus"
)

// Sandbox plays the provider of the sandbox route. It makes no attempts and decides nothing by
// itself: payments and refunds wait until SignalPayment or SignalRefund is called. Its signals are
// sent like those of any provider.
type Sandbox struct {
	// Routes are those in use; nil: none. The sandbox does not play the provider of one that has a
	// connector: a payment whose money a real provider collects must not become paid by a
	// merchant's key.
	Routes *Set

	signals *Sender
	now     func() time.Time
}

// NewSandbox makes the sandbox. It signals over nc.
func NewSandbox(nc *nats.Conn, now func() time.Time) *Sandbox {
	return &Sandbox{signals: NewSender(nc), now: now}
}

// SignalPayment signals an outcome of the payment as the provider of its
// route would, or as the sandbox's while it has none, and returns what the
// enforcer replied. The attempt begins now, or with the payment where that is
// ahead of the clock. It resends until answered; the
// error is the context's when ctx ends first, or a refusal of NotSimulated.
func (s *Sandbox) SignalPayment(ctx context.Context, p domain.Payment, o domain.Outcome, reference string) (domain.SignalReply, error) {
	return s.send(ctx, p, domain.Signal{Outcome: o, Reference: reference})
}

// SignalRefund signals an outcome of one of the payment's refunds in the same
// way.
func (s *Sandbox) SignalRefund(ctx context.Context, p domain.Payment, refund domain.ID, o domain.Outcome, reference string) (domain.SignalReply, error) {
	return s.send(ctx, p, domain.Signal{Outcome: o, Reference: reference, RefundID: &refund})
}

func (s *Sandbox) send(ctx context.Context, p domain.Payment, sig domain.Signal) (domain.SignalReply, error) {
	if s.Routes != nil {
		if _, connected := s.Routes.Connector(p.Route); connected {
			return domain.SignalReply{}, &domain.Refusal{Code: domain.NotSimulated}
		}
	}
	sig.Route, sig.Amount, sig.Currency = cmp.Or(p.Route, domain.SandboxRoute), p.Amount, p.Currency
	sig.StartedAt = max(domain.InstantOf(s.now()), p.CreatedAt)
	return s.signals.Send(ctx, p.Project, p.ID, sig, bus.Said{})
}
