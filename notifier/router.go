package notifier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
)

// router gives new payments their route. Many commands are under way at once,
// so that one sync of the log carries many of them; the order between
// payments does not matter.
type router struct {
	ledger eventstore.Ledger
	ids    *domain.IDs
	table  domain.RoutingTable
	log    zerolog.Logger
	todo   chan eventstore.Stream

	unrouted UnroutedView
}

const (
	routerWorkers = 512
	routerQueue   = 1024
)

func newRouter(c WorkersConfig) *router {
	return &router{ledger: c.Ledger, ids: c.IDs, table: c.Table, log: c.Log, todo: make(chan eventstore.Stream, routerQueue), unrouted: c.Unrouted}
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
func (r *router) take(ctx context.Context, s eventstore.Stream) error {
	select {
	case r.todo <- s:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *router) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	for range routerWorkers {
		g.Go(func() error {
			for {
				select {
				case <-ctx.Done():
					return ctx.Err()
				case s := <-r.todo:
					if err := r.route(ctx, s); err != nil {
						return err
					}
				}
			}
		})
	}
	return g.Wait()
}

// route assigns a route, or fails the payment if no rule takes it. A payment
// that has moved on is left alone. The draw comes from the id, so that a
// repeated try draws the same.
func (r *router) route(ctx context.Context, s eventstore.Stream) error {
	id, ok := domain.ParseID(s.ID)
	if !ok {
		return nil // no payment of ours
	}
	cmd := domain.AssignRoute{Table: r.table, Draw: binary.BigEndian.Uint64(id[len(id)-8:])}
	return settle(ctx, r.log, r.ledger, r.ids, s.Project, id, cmd)
}

// settle runs a worker's command on a payment until it is decided. Refusals
// are logged: they concern that payment alone. The error is the context's or
// ends the work.
func settle(ctx context.Context, log zerolog.Logger, l eventstore.Ledger, ids *domain.IDs, project string, id domain.ID, cmd domain.PaymentCommand) error {
	_, err := execute(ctx, l, ids, project, id, true, func(domain.ID) domain.PaymentCommand { return cmd })
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case ends(err):
		return err
	}
	if !errors.As(err, new(*domain.TooEarlyError)) {
		log.Error().Err(err).Str("project", project).Stringer("payment", id).
			Str("command", fmt.Sprintf("%T", cmd)).Msg("a payment's next step was refused")
	}
	return nil
}

// execute runs a command on a payment, again while the store is busy or full.
// The command is made from the id its event would get. A patient one lets
// others come first.
func execute(ctx context.Context, l eventstore.Ledger, ids *domain.IDs, project string, id domain.ID, patient bool,
	command func(event domain.ID) domain.PaymentCommand,
) (eventstore.Result[domain.Payment], error) {
	var r eventstore.Result[domain.Payment]
	err := persist(ctx, func() (err error) {
		event := ids.Next()
		r, err = eventstore.Execute(ctx, l, eventstore.PaymentStream(project, id),
			domain.Payment{Project: project, ID: id}, command(event), eventstore.Order{EventID: event, Patient: patient})
		return err
	})
	return r, err
}
