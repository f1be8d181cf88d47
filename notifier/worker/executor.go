package worker

import (
	"context"
	"errors"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/health"
)

// executor runs commands on payments that a view has found.
type executor struct {
	Config
	payments zerolog.Logger // for lines about single payments
}

// maxLinesPerMinute bounds these lines: what fails is tried again each second.
const maxLinesPerMinute = 10

func executorOf(c Config) executor {
	return executor{c, c.Log.Sample(&zerolog.BurstSampler{Burst: maxLinesPerMinute, Period: time.Minute})}
}

// payment is one that a view has found.
type payment struct {
	project string
	id      domain.ID
	created eventstore.Position // of its payment.created, where the view says so
}

// atATime is how many commands run concurrently: one sync of the log carries their events.
const atATime = 64

// executeAll runs a command on each of the payments, again while the store is busy or full, and calls done
// with the results, concurrently. The error is the context's or ends the work; others are logged as the
// failure, because they concern only that payment, but for its being too early.
func (x executor) executeAll(
	ctx context.Context, payments []payment, failure string, command func(event domain.ID) domain.PaymentCommand,
	done func(payment, eventstore.Result[domain.Payment]),
) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atATime)
	for _, p := range payments {
		g.Go(func() error {
			var r eventstore.Result[domain.Payment]
			err := health.Persist(ctx, func() (err error) {
				event := x.IDs.Next()
				r, err = eventstore.Execute(ctx, x.Ledger, eventstore.PaymentStream(p.project, p.id), domain.Payment{Project: p.project, ID: p.id},
					command(event), eventstore.Order{EventID: event, Patient: true})
				return err
			})
			switch {
			case err == nil:
				done(p, r)
			case errors.As(err, new(*domain.TooEarlyError)):
			case health.Ends(err), ctx.Err() != nil:
				return err
			default:
				x.payments.Error().Err(err).Str("project", p.project).Stringer("payment", p.id).Msg(failure)
			}
			return nil
		})
	}
	return g.Wait()
}
