// Package worker assigns routes to waiting payments, expires payments whose time is over, matches lines
// of settlement reports with outcomes that came later, and erases details that are kept no longer.
package worker

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// UnroutedView lists the payments that have no route yet.
type UnroutedView interface {
	// EachUnrouted calls fn for all payments in status created with the positions of their
	// payment.created, lowest first, after a position, up to limit, and returns fn's error. It reflects
	// what was durable when it was called.
	EachUnrouted(ctx context.Context, after eventstore.Position, limit int, fn func(created eventstore.Position, project string, payment domain.ID) error) error
}

// DueView lists payments by when they expire.
type DueView interface {
	// EachDue calls fn for up to limit payments whose expiry is due before an
	// instant, soonest first, and returns fn's error.
	EachDue(ctx context.Context, before domain.Instant, limit int, fn func(project string, payment domain.ID) error) error
	// NextDue is the soonest expiry of all.
	NextDue(ctx context.Context) (domain.Instant, bool, error)
}

// Config configures the Workers.
type Config struct {
	Ledger eventstore.Ledger
	IDs    *domain.IDs
	Now    func() time.Time
	Table  func() (inUse, paused domain.RoutingTable) // the rules at each instant: those of routes in use, and those of paused ones
	// Again brings a token when payments that wait for a paused route may get one.
	Again    <-chan struct{}
	Unrouted UnroutedView
	Due      DueView

	Settlements SettlementView // nil: there are none
	Settling    sync.Locker    // held while lines of settlement reports are recorded

	Details Details // nil: they are kept

	Log     zerolog.Logger
	Metrics prometheus.Registerer // nil: none
}

// Workers are the router, the expirer, the settler and the retention. They work from views of the log
// and keep no state, so nothing is left out after an outage or a restart.
type Workers struct {
	router    *router
	expirer   *expirer
	settler   *settler   // nil: there is no report
	retention *retention // nil: details are kept
}

// New makes the workers; Run lets them work.
func New(c Config) *Workers {
	w := &Workers{router: newRouter(c), expirer: newExpirer(c)}
	if c.Settlements != nil {
		w.settler = newSettler(c)
	}
	if c.Details != nil {
		w.retention = newRetention(c)
		health.UpGauge(c.Metrics, "retention", "details that are kept no longer are erased", w.retention.trouble.Err)
	}
	health.UpGauge(c.Metrics, "expirer", "payments whose time is over expire", w.expirer.trouble.Err)
	return w
}

// Run works until ctx ends; then the error is nil, and no command is under
// way. Otherwise it is the store's: the log takes no more commands.
func (w *Workers) Run(ctx context.Context) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return w.router.run(gctx) })
	g.Go(func() error { return w.expirer.run(gctx) })
	if w.settler != nil {
		g.Go(func() error { return w.settler.run(gctx) })
	}
	if w.retention != nil {
		g.Go(func() error { return w.retention.run(gctx) })
	}
	err := g.Wait()
	if ctx.Err() != nil && !health.Ends(err) {
		return nil
	}
	return err
}

// repeat calls step, with the pauses that it asks for, until ctx ends or its error ends the work. It
// tells how each call ended.
func repeat(ctx context.Context, step func(context.Context) (pause time.Duration, err error), tell func(error)) error {
	for {
		pause, err := step(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if health.Ends(err) {
			return err
		}
		if tell(err); !health.Pause(ctx, pause) {
			return ctx.Err()
		}
	}
}
