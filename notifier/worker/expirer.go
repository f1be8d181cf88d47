package worker

import (
	"context"
	"sync/atomic"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// expirer closes payments whose time is over. The domain decides when a payment's time is over: the
// view only finds the candidates.
type expirer struct {
	executor

	trouble health.State
}

const (
	expireBatch = 512

	// lookEvery bounds how long the expirer sleeps, because the clock on the
	// wall may be set while it does. It is far below the shortest lifetime of
	// a payment, so new payments need not wake the expirer.
	lookEvery = 15 * time.Second
	// restAfter is the pause after an error, and while what is due was refused.
	restAfter = time.Second
)

func newExpirer(c Config) *expirer {
	return &expirer{executor: executorOf(c), trouble: health.State{Log: c.Log, Part: "expirer"}}
}

func (e *expirer) run(ctx context.Context) error { return repeat(ctx, e.step, e.trouble.Set) }

func (e *expirer) step(ctx context.Context) (pause time.Duration, err error) {
	if more, err := e.expireDue(ctx); err != nil {
		return restAfter, err
	} else if more {
		return 0, nil
	}
	return e.untilDue(ctx)
}

// untilDue is how long the expirer may sleep. What is due although all that
// was due has just been expired was refused, for instance because the view
// and the log differ; it is not asked for again at once.
func (e *expirer) untilDue(ctx context.Context) (time.Duration, error) {
	next, ok, err := e.Due.NextDue(ctx)
	switch d := next.Time().Sub(e.Now()); {
	case err == nil && !ok:
		return lookEvery, nil
	case err != nil, d <= 0:
		return restAfter, err
	default:
		return min(d, lookEvery), nil
	}
}

// expireDue runs the command on what is due, up to a batch. more: there may be
// more, and the batch got somewhere.
func (e *expirer) expireDue(ctx context.Context) (more bool, err error) {
	var due []payment
	// The view says "before": what is due at this very millisecond included.
	before := domain.InstantOf(e.Now()) + 1
	err = e.Due.EachDue(ctx, before, expireBatch, func(project string, id domain.ID) error {
		due = append(due, payment{project: project, id: id})
		return nil
	})
	if err != nil {
		return false, err
	}
	var expired atomic.Bool
	err = e.executeAll(ctx, due, "a payment could not be expired", func(event domain.ID) domain.PaymentCommand {
		return domain.ExpirePayment{At: domain.IDTime(event)}
	}, func(_ payment, done eventstore.Result[domain.Payment]) {
		if done.Event != nil {
			expired.Store(true)
		}
	})
	return err == nil && len(due) == expireBatch && expired.Load(), err
}
