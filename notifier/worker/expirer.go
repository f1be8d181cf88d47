package worker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// expirer closes payments whose time is over. The domain decides when a payment's time is over: the
// view only finds the candidates.
type expirer struct {
	ledger  eventstore.Ledger
	ids     *domain.IDs
	now     func() time.Time
	due     DueView
	log     zerolog.Logger
	trouble health.State
}

const (
	expireBatch   = 512
	expireWorkers = 64

	// lookEvery bounds how long the expirer sleeps, because the clock on the
	// wall may be set while it does. It is far below the shortest lifetime of
	// a payment, so new payments need not wake the expirer.
	lookEvery = 15 * time.Second
	// restAfter is the pause after an error, and while what is due was refused.
	restAfter = time.Second
)

func newExpirer(c Config) *expirer {
	return &expirer{
		ledger: c.Ledger, ids: c.IDs, now: c.Now, due: c.Due, log: c.Log,
		trouble: health.State{Log: c.Log, Part: "expirer"},
	}
}

func (e *expirer) run(ctx context.Context) error {
	for {
		more, err := e.expireDue(ctx)
		sleep := time.Duration(0)
		if err == nil && !more {
			sleep, err = e.untilDue(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case health.Ends(err):
			return err
		case err != nil:
			sleep = restAfter
		}
		e.trouble.Set(err)
		if sleep > 0 && !health.Pause(ctx, sleep) {
			return ctx.Err()
		}
	}
}

// untilDue is how long the expirer may sleep. What is due although all that
// was due has just been expired was refused, for instance because the view
// and the log differ; it is not asked for again at once.
func (e *expirer) untilDue(ctx context.Context) (time.Duration, error) {
	next, ok, err := e.due.NextDue(ctx)
	if err != nil {
		return 0, err
	}
	if !ok {
		return lookEvery, nil
	}
	d := next.Time().Sub(e.now())
	if d <= 0 {
		return restAfter, nil
	}
	return min(d, lookEvery), nil
}

// expireDue runs the command on what is due, up to a batch. more: there may be
// more, and the batch got somewhere.
func (e *expirer) expireDue(ctx context.Context) (more bool, err error) {
	type payment struct {
		project string
		id      domain.ID
	}
	var due []payment
	// The view says "before": what is due at this very millisecond included.
	before := domain.InstantOf(e.now()) + 1
	err = e.due.EachDue(ctx, before, expireBatch, func(project string, id domain.ID) error {
		due = append(due, payment{project, id})
		return nil
	})
	if err != nil {
		return false, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(expireWorkers)
	var expired atomic.Bool
	for _, p := range due {
		g.Go(func() error {
			err := health.Persist(gctx, func() error {
				event := e.ids.Next()
				r, err := eventstore.Execute(gctx, e.ledger, eventstore.PaymentStream(p.project, p.id), domain.Payment{Project: p.project, ID: p.id},
					domain.PaymentCommand(domain.ExpirePayment{At: domain.IDTime(event)}), eventstore.Order{EventID: event, Patient: true})
				if r.Event != nil {
					expired.Store(true)
				}
				return err
			})
			switch {
			case err == nil, errors.As(err, new(*domain.TooEarlyError)):
				return nil
			case health.Ends(err), gctx.Err() != nil:
				return err
			}
			e.log.Error().Err(err).Str("project", p.project).Stringer("payment", p.id).Msg("a payment could not be expired")
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return false, err
	}
	return len(due) == expireBatch && expired.Load(), nil
}
