package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// router gives payments that were created without a route theirs: those of which every
// route was paused, and those that an older program created. It takes whatever is queued
// at once, and one sync of the log carries all of it; the order between payments does
// not matter.
//
// A payment that only paused routes take waits. It is in the view of unrouted payments
// alone, where it is found again when a route is resumed.
type router struct {
	ledger eventstore.Ledger
	ids    *domain.IDs
	table  func() domain.RoutingTable
	split  func(domain.RoutingTable) (inUse, paused domain.RoutingTable)
	again  <-chan struct{}
	held   prometheus.Counter
	log    zerolog.Logger
	todo   chan unrouted

	unrouted UnroutedView
}

// unrouted is a payment.created as JetStream brought it.
type unrouted struct {
	eventstore.Stored

	moved bool // the payment has: its stream is to be read
	old   bool // the payment was decided before
}

const (
	routerQueue = 1024
	routerBatch = 512
)

func newRouter(c Config) *router {
	if c.Split == nil {
		c.Split = func(t domain.RoutingTable) (inUse, paused domain.RoutingTable) { return t, nil }
	}
	return &router{
		ledger: c.Ledger, ids: c.IDs, table: c.Table, split: c.Split, again: c.Again, log: c.Log,
		todo: make(chan unrouted, routerQueue), unrouted: c.Unrouted,
		held: health.Counter(c.Metrics, "payledger_router_held_total", "Payments that had to wait because every route that takes them was paused."),
	}
}

// begin is the first position that matters: the oldest payment without a
// route, or what comes behind the log's end.
func (r *router) begin(ctx context.Context) (eventstore.Position, error) {
	// In this order: what is created between the two questions is behind last.
	last, err := r.ledger.Store.Last(ctx)
	if err != nil {
		return 0, err
	}
	oldest, ok, err := r.unrouted.OldestUnrouted(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for payments without a route: %w", err)
	}
	if !ok || oldest > last {
		return last + 1, nil
	}
	return oldest, nil
}

// take queues a payment; it waits while the queue is full.
func (r *router) take(ctx context.Context, created eventstore.Stored) error {
	select {
	case r.todo <- unrouted{Stored: created}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *router) run(ctx context.Context) error {
	var queued []unrouted
	for {
		queued = queued[:0]
		select {
		case p := <-r.todo:
			queued = r.queued(append(queued, p))
		case <-r.again:
			if err := r.routeWaiting(ctx); err != nil {
				return err
			}
		case <-ctx.Done():
		}
		if err := r.routeAll(ctx, queued); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// routeAll decides payments until each is decided. The error is the context's or
// ends the work.
func (r *router) routeAll(ctx context.Context, payments []unrouted) error {
	for pauses := health.StorePause(); len(payments) > 0; {
		var wait bool
		var err error
		payments, wait, err = r.route(ctx, payments)
		if err != nil {
			return err
		}
		if wait {
			pauses.Wait(ctx)
		}
	}
	return nil
}

// routeWaiting decides again the payments that have no route. What cannot be read
// is tried until it can be.
func (r *router) routeWaiting(ctx context.Context) error {
	for after := eventstore.Position(0); ; {
		var at []eventstore.Position
		err := r.unrouted.EachUnrouted(ctx, after, routerBatch, func(created eventstore.Position) error {
			at = append(at, created)
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case health.Ends(err):
			return err
		case err != nil:
			r.log.Error().Err(err).Msg("the payments that wait for a route cannot be listed; it is tried until they can")
			health.Pause(ctx, restAfter)
			continue
		case len(at) == 0:
			return nil
		}
		var waiting []unrouted
		for _, created := range at {
			for stored, err := range r.ledger.Store.Scan(ctx, created-1, eventstore.Filter{}) {
				if refused := r.refused(ctx, stored.Stream, err); refused != nil {
					return refused
				}
				if err == nil {
					waiting = append(waiting, unrouted{Stored: stored, old: true})
				}
				break
			}
		}
		if err := r.routeAll(ctx, waiting); err != nil {
			return err
		}
		after = at[len(at)-1]
	}
}

// queued adds the payments that wait in the queue, up to a batch.
func (r *router) queued(payments []unrouted) []unrouted {
	for len(payments) < routerBatch {
		select {
		case p := <-r.todo:
			payments = append(payments, p)
		default:
			return payments
		}
	}
	return payments
}

// route assigns each payment a route, or fails it if no rule takes it. Those
// that have moved on are left alone. It answers the payments to be tried again,
// and whether after a pause; the error is the context's or ends the work.
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

// decide answers what is to be recorded of a payment, if anything. A payment
// that nobody has changed is what its first event says.
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

// refused answers the error if it is the context's or ends the work. Others are
// logged: they concern that payment alone.
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
