package worker

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// router gives payments that were created without a route theirs: those of which every
// route was paused, and those that an older program created. It finds them in the view
// of unrouted payments, the new ones soon after they were created and all of them at the
// start and when a route is resumed. One sync of the log carries a batch.
type router struct {
	ledger eventstore.Ledger
	ids    *domain.IDs
	table  func() domain.RoutingTable
	split  func(domain.RoutingTable) (inUse, paused domain.RoutingTable)
	again  <-chan struct{}
	held   prometheus.Counter
	log    zerolog.Logger

	unrouted UnroutedView
}

// unrouted is a payment.created.
type unrouted struct {
	eventstore.Stored

	moved bool // the payment has: its stream is to be read
	old   bool // the payment was decided before
}

const (
	routerBatch = 512
	routerEvery = time.Second // between searches for new payments
)

func newRouter(c Config) *router {
	if c.Split == nil {
		c.Split = func(t domain.RoutingTable) (inUse, paused domain.RoutingTable) { return t, nil }
	}
	return &router{
		ledger: c.Ledger, ids: c.IDs, table: c.Table, split: c.Split, again: c.Again, log: c.Log,
		unrouted: c.Unrouted,
		held:     health.Counter(c.Metrics, "payledger_router_held_total", "Payments that had to wait because every route that takes them was paused."),
	}
}

func (r *router) run(ctx context.Context) error {
	tick := time.NewTicker(routerEvery)
	defer tick.Stop()
	var seen eventstore.Position // those up to here were decided
	for after := seen; ; {
		upTo, err := r.routeWaiting(ctx, after, seen)
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
		seen = max(seen, upTo)
		select {
		case <-tick.C:
			after = seen
		case <-r.again:
			after = 0
		case <-ctx.Done():
		}
	}
}

// routeWaiting decides the payments without a route that were created after a position, those up to
// seen not for the first time. It returns the last one's. What cannot be read is tried until it can
// be.
func (r *router) routeWaiting(ctx context.Context, after, seen eventstore.Position) (eventstore.Position, error) {
	for {
		var at []eventstore.Position
		err := r.unrouted.EachUnrouted(ctx, after, routerBatch, func(created eventstore.Position, _ string, _ domain.ID) error {
			at = append(at, created)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return after, ctx.Err()
		case health.Ends(err):
			return after, err
		case err != nil:
			r.log.Error().Err(err).Msg("the payments that wait for a route cannot be listed; it is tried until they can")
			health.Pause(ctx, restAfter)
			continue
		case len(at) == 0:
			return after, nil
		}
		var waiting []unrouted
		for _, created := range at {
			for stored, err := range r.ledger.Store.Scan(ctx, created-1, eventstore.Filter{}) {
				if refused := r.refused(ctx, stored.Stream, err); refused != nil {
					return after, refused
				}
				if err == nil {
					waiting = append(waiting, unrouted{Stored: stored, old: created <= seen})
				}
				break
			}
		}
		for pauses := health.StorePause(); len(waiting) > 0; {
			var wait bool
			if waiting, wait, err = r.route(ctx, waiting); err != nil {
				return after, err
			}
			if wait {
				pauses.Wait(ctx)
			}
		}
		after = at[len(at)-1]
	}
}

// route assigns each payment a route, or fails it if no rule takes it. Those that have moved on are
// left alone. It returns the payments to be tried again, and whether after a pause; the error is
// the context's or ends the work.
func (r *router) route(ctx context.Context, payments []unrouted) (again []unrouted, wait bool, err error) {
	commits, of := make([]eventstore.Commit, 0, len(payments)), make([]unrouted, 0, len(payments))
	for _, p := range payments {
		c, e, err := r.decide(ctx, p)
		if refused := r.refused(ctx, p.Stream, err); refused != nil {
			return nil, false, refused
		}
		if err == nil && e != nil {
			commits, of = append(commits, c), append(of, p)
		}
	}
	for i, done := range r.ledger.Store.Append(ctx, commits...) {
		p, err := of[i], done.Err
		switch later := health.Passes(err); {
		case err == nil:
		case later:
			again, wait = append(again, p), true
		case errors.As(err, new(*eventstore.ConflictError)):
			p.moved = true
			again = append(again, p)
		default:
			if err := r.refused(ctx, p.Stream, err); err != nil {
				return nil, false, err
			}
		}
	}
	return again, wait, ctx.Err()
}

// decide returns the commit for a payment, if any. The state of an unchanged payment is that of its
// first event.
func (r *router) decide(ctx context.Context, p unrouted) (c eventstore.Commit, e domain.Event, err error) {
	id, ok := domain.ParseID(p.Stream.ID)
	if !ok {
		return c, nil, nil // no payment of ours
	}
	payment, last := domain.Payment{Project: p.Stream.Project, ID: id}, p.Stored
	if p.moved {
		payment, last, err = eventstore.Fold(ctx, r.ledger, p.Stream, payment)
	} else if e, err = r.ledger.Codec.Event(p.Stored); err == nil {
		payment = payment.Evolve(e)
	}
	if err != nil {
		return c, nil, err
	}
	inUse, paused := r.split(r.table())
	e, err = payment.Decide(domain.AssignRoute{Table: inUse, Paused: paused})
	if err == nil && e == nil && payment.Status == domain.Created && !p.old {
		r.held.Inc()
	}
	if err != nil || e == nil {
		return c, nil, err
	}
	c, err = r.ledger.Commit(p.Stream, last, e, eventstore.Order{EventID: r.ids.Next(), Patient: true})
	return c, e, err
}

// refused returns the error if it is the context's or ends the work. Others are logged: they
// concern only that payment.
func (r *router) refused(ctx context.Context, s eventstore.Stream, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case health.Ends(err):
		return err
	}
	r.log.Error().Err(err).Str("project", s.Project).Str("payment", s.ID).Msg("a payment was not given a route")
	return nil
}
