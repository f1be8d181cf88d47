package worker

import (
	"cmp"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// router gives payments that were created without a route theirs: those of which every
// route was paused, and those that an older program created. It finds them in the view
// of unrouted payments, the new ones soon after they were created and all of them at the
// start and when a route is resumed.
type router struct {
	executor

	held prometheus.Counter
}

const (
	routerBatch = 512
	routerEvery = time.Second // between searches for new payments
)

func newRouter(c Config) *router {
	return &router{
		executor: executorOf(c),
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
		case <-r.Again:
			after = 0
		case <-ctx.Done():
		}
	}
}

// routeWaiting assigns each payment without a route that was created after a position one, or fails it
// if no rule takes it; those up to seen are not decided for the first time. It returns the last one's
// position. What cannot be listed is tried until it can be.
func (r *router) routeWaiting(ctx context.Context, after, seen eventstore.Position) (eventstore.Position, error) {
	for {
		var waiting []payment
		err := r.Unrouted.EachUnrouted(ctx, after, routerBatch, func(created eventstore.Position, project string, id domain.ID) error {
			waiting = append(waiting, payment{project, id, created})
			return nil
		})
		switch {
		case ctx.Err() != nil:
			return after, ctx.Err()
		case health.Ends(err):
			return after, err
		case err != nil:
			r.payments.Error().Err(err).Msg("the payments that wait for a route cannot be listed; it is tried until they can")
			health.Pause(ctx, restAfter)
			continue
		case len(waiting) == 0:
			return after, nil
		}
		err = r.executeAll(ctx, waiting, "a payment was not given a route", func(domain.ID) domain.PaymentCommand {
			inUse, paused := r.Table()
			return domain.AssignRoute{Table: inUse, Paused: paused}
		}, func(p payment, done eventstore.Result[domain.Payment]) {
			if done.Event == nil && done.State.Status == domain.Created && p.created > seen {
				r.held.Inc()
			}
		})
		if err != nil {
			return after, err
		}
		after = waiting[len(waiting)-1].created
	}
}
