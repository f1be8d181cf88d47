package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
	"payledger/notifier/health"
	"payledger/notifier/queue"
)

// connectors notify the connectors of what concerns their routes. Each has a
// queue of its own, so that one whose provider is slow delays no other.
type connectors struct {
	payments PaymentsView
	codec    *eventstore.Codec
	log      zerolog.Logger
	byRoute  map[string]*queue.Queue[notification]
	all      []connector.Connector
}

// notification is one call of a connector.
type notification struct {
	payment domain.Payment
	refund  *domain.Refund // nil: the payment was assigned
}

func newConnectors(c Config) (*connectors, error) {
	cs := &connectors{
		payments: c.Payments, codec: c.Ledger.Codec, log: c.Log, byRoute: make(map[string]*queue.Queue[notification]), all: c.Connectors,
	}
	for _, one := range c.Connectors {
		// A route is named alike by rules and connectors.
		rule := domain.Rule{Route: one.Route(), Min: domain.MinAmount, Max: domain.MaxAmount}
		if err := (domain.RoutingTable{rule}).Validate(); err != nil {
			return nil, fmt.Errorf("a connector: %w", err)
		}
		if cs.byRoute[one.Route()] != nil {
			return nil, fmt.Errorf("two connectors serve the route %q", one.Route())
		}
		cs.byRoute[one.Route()] = queue.New[notification]()
	}
	return cs, nil
}

// take queues what the event means for a connector, if one serves the payment's
// route. The payment is that of the view, which holds the event. The error is
// the context's or the view's.
func (c *connectors) take(ctx context.Context, e bus.Event) error {
	if len(c.all) == 0 {
		return nil
	}
	id, ok := domain.ParseID(e.Stream.ID)
	event, err := c.codec.Event(e.Stored)
	if !ok || err != nil {
		return nil //nolint:nilerr // an event that says nothing concerns no connector
	}
	if assigned, ok := event.(domain.PaymentRouteAssigned); ok && c.byRoute[assigned.Route] == nil {
		return nil
	}
	p, ok, err := c.payments.Payment(ctx, id)
	if err != nil || !ok {
		return err
	}
	q := c.byRoute[p.Route]
	if q == nil {
		return nil // the connector of this route is a program elsewhere
	}
	n := notification{payment: p}
	if created, ok := event.(domain.RefundCreated); ok {
		r, ok := p.Refund(created.RefundID)
		if !ok {
			return nil
		}
		n.refund = &r
	}
	q.Put(n)
	return nil
}

func (c *connectors) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, one := range c.all {
		g.Go(func() error { return c.notify(ctx, one, c.byRoute[one.Route()]) })
	}
	return g.Wait()
}

// notify calls one connector, again after a pause while it answers errors.
func (c *connectors) notify(ctx context.Context, one connector.Connector, q *queue.Queue[notification]) error {
	pauses := health.Backoff{First: 100 * time.Millisecond, Max: 30 * time.Second}
	for {
		n, ok := q.Take(ctx)
		if !ok {
			return ctx.Err()
		}
		for pauses.Reset(); ; {
			err := call(ctx, one, n)
			if err == nil {
				break
			}
			if ctx.Err() == nil && pauses.Next == 0 {
				c.log.Warn().Err(err).Str("route", one.Route()).Stringer("payment", n.payment.ID).
					Msg("a connector does not take a payment; it is notified again until it does")
			}
			if !pauses.Wait(ctx) {
				return ctx.Err()
			}
		}
	}
}

func call(ctx context.Context, one connector.Connector, n notification) error {
	if n.refund != nil {
		return one.RefundRequested(ctx, n.payment, *n.refund)
	}
	return one.Assigned(ctx, n.payment)
}
