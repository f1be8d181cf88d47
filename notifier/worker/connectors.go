package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/connector"
	"payledger/notifier/health"
	"payledger/notifier/queue"
)

// connectors tell acquirers what concerns their routes. Each acquirer has a
// queue of its own, so that one whose provider is slow delays no other.
type connectors struct {
	ledger  eventstore.Ledger
	log     zerolog.Logger
	news    *queue.Queue[news]
	byRoute map[string]*queue.Queue[telling]
	all     []connector.Connector
}

const newsAtOnce = 256

// news is an event that an acquirer may have to hear of.
type news struct {
	stream eventstore.Stream
	refund domain.ID // that was requested; zero: a route was assigned
}

// telling is one call of an acquirer.
type telling struct {
	payment domain.Payment
	refund  *domain.Refund // nil: the payment was assigned
}

func newConnectors(c Config) (*connectors, error) {
	cs := &connectors{
		ledger: c.Ledger, log: c.Log, news: queue.New[news](),
		byRoute: make(map[string]*queue.Queue[telling]), all: c.Connectors,
	}
	for _, a := range c.Connectors {
		// A route is named alike by rules and acquirers.
		rule := domain.Rule{Route: a.Route(), Min: domain.MinAmount, Max: domain.MaxAmount}
		if err := (domain.RoutingTable{rule}).Validate(); err != nil {
			return nil, fmt.Errorf("an acquirer: %w", err)
		}
		if cs.byRoute[a.Route()] != nil {
			return nil, fmt.Errorf("two acquirers serve the route %q", a.Route())
		}
		cs.byRoute[a.Route()] = queue.New[telling]()
	}
	return cs, nil
}

// take notes an event that an acquirer is to hear of.
func (c *connectors) take(a bus.Event) {
	if len(c.all) == 0 {
		return
	}
	n := news{stream: a.Stream}
	if a.Type == domain.TypeRefundCreated {
		n.refund = refundID(a.Data)
		if n.refund.IsZero() {
			return // it does not say which
		}
	}
	c.news.Put(n)
}

func (c *connectors) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, a := range c.all {
		g.Go(func() error { return c.tell(ctx, a, c.byRoute[a.Route()]) })
	}
	g.Go(func() error {
		var all []news
		for {
			if all = c.news.TakeAll(ctx, all[:0], newsAtOnce); len(all) == 0 {
				return ctx.Err()
			}
			for _, n := range all {
				if err := c.sort(ctx, n); err != nil {
					return err
				}
			}
		}
	})
	return g.Wait()
}

// sort finds out whom the news concern. The message only says where to look:
// what the acquirer is told comes from the log.
func (c *connectors) sort(ctx context.Context, n news) error {
	id, ok := domain.ParseID(n.stream.ID)
	if !ok {
		return nil
	}
	p, last, err := eventstore.Fold(ctx, c.ledger, n.stream, domain.Payment{Project: n.stream.Project, ID: id})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case health.Ends(err):
		return err
	case err != nil:
		c.log.Error().Err(err).Stringer("payment", id).Msg("an acquirer is not told of a payment that cannot be read")
		return nil
	case last.Position == 0:
		return nil // the message is of another log
	}
	q := c.byRoute[p.Route]
	if q == nil {
		return nil // the acquirer of this route is elsewhere and listens for itself
	}
	if n.refund.IsZero() {
		q.Put(telling{payment: p})
		return nil
	}
	if r, ok := p.Refund(n.refund); ok {
		q.Put(telling{payment: p, refund: &r})
	}
	return nil
}

// refundID reads which refund a refund.created is about, zero if it does not
// say.
func refundID(body []byte) domain.ID {
	var e struct {
		Data struct {
			RefundID domain.ID `json:"refund_id"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &e) != nil {
		return domain.ID{}
	}
	return e.Data.RefundID
}

// tell calls one acquirer, again after a pause while it answers errors.
func (c *connectors) tell(ctx context.Context, a connector.Connector, q *queue.Queue[telling]) error {
	pauses := health.Backoff{First: 100 * time.Millisecond, Max: 30 * time.Second}
	for {
		t, ok := q.Take(ctx)
		if !ok {
			return ctx.Err()
		}
		for pauses.Reset(); ; {
			err := call(ctx, a, t)
			if err == nil {
				break
			}
			if ctx.Err() == nil && pauses.Next == 0 {
				c.log.Warn().Err(err).Str("route", a.Route()).Stringer("payment", t.payment.ID).
					Msg("the acquirer does not take a payment; it is told again until it does")
			}
			if !pauses.Wait(ctx) {
				return ctx.Err()
			}
		}
	}
}

func call(ctx context.Context, a connector.Connector, t telling) error {
	if t.refund != nil {
		return a.RefundRequested(ctx, t.payment, *t.refund)
	}
	return a.Assigned(ctx, t.payment)
}
