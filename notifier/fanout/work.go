package fanout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
)

// work enqueues what was taken and checkpoints the position reached.
func (f *FanOut) work(ctx context.Context) error {
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	var batch []delivery.Event
	for {
		var err error
		select {
		case e := <-f.taken:
			batch = append(batch[:0], e)
			for len(f.taken) > 0 && len(batch) < maxFanOutBatch {
				batch = append(batch, <-f.taken)
			}
			err = f.enqueue(ctx, batch)
		case <-tick.C:
			err = f.checkpoint(ctx, eventstore.Position(f.done.Load()), nil)
		case <-ctx.Done():
			f.checkpointAtEnd(ctx)
		}
		if err := cmp.Or(ctx.Err(), err); err != nil {
			return err
		}
	}
}

// enqueue enqueues the notifications that the events lead to.
func (f *FanOut) enqueue(ctx context.Context, events []delivery.Event) error {
	upTo := events[len(events)-1].Position
	events = slices.DeleteFunc(events, func(e delivery.Event) bool { return e.Kind == "" })
	if len(events) > 0 {
		var all []delivery.Event
		err := f.untilDone(ctx, func() (err error) {
			all, err = f.addressed(ctx, events, upTo)
			return err
		})
		if err == nil && len(all) > 0 {
			err = f.checkpoint(ctx, upTo, all)
		}
		if err != nil {
			return err
		}
	}
	f.done.Store(uint64(upTo))
	return nil
}

// checkpoint enqueues the events together with the position reached.
func (f *FanOut) checkpoint(ctx context.Context, upTo eventstore.Position, events []delivery.Event) error {
	if upTo <= f.checkpointed {
		return nil
	}
	err := f.untilDone(ctx, func() error {
		err := f.lanes.Enqueue(ctx, upTo, events)
		if err == nil {
			return nil
		}
		if after, _, unread := f.lanes.Start(); unread == nil && after >= upTo {
			return nil // they have them all the same
		}
		return err
	})
	if err == nil {
		f.checkpointed = upTo
		f.enqueued.Add(float64(len(events)))
	}
	return err
}

// checkpointAtEnd spares the next start some reading; nothing depends on it.
func (f *FanOut) checkpointAtEnd(ctx context.Context) {
	done := eventstore.Position(f.done.Load())
	if done <= f.checkpointed {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxCheckpointAtEnd)
	defer cancel()
	if err := f.lanes.Enqueue(ctx, done, nil); err != nil {
		f.log.Debug().Err(err).Msg("how far events were enqueued for webhooks could not be noted")
	}
}

// untilDone repeats a step until it succeeds. The error is the context's, or the
// store's that takes no more commands.
func (f *FanOut) untilDone(ctx context.Context, step func() error) error {
	for retry := f.retry; ; {
		err := step()
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if health.Ends(err) {
			return err
		}
		f.trouble.Set(err)
		if err == nil {
			return nil
		}
		if !retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// listener is a webhook endpoint as it is at the end of a batch.
type listener struct {
	projects.Endpoint
	added eventstore.Position
}

// addressed is the notifications that the events lead to. The endpoints are as
// they are at upTo or later: a change of their kinds takes effect at once.
func (f *FanOut) addressed(ctx context.Context, events []delivery.Event, upTo eventstore.Position) ([]delivery.Event, error) {
	var out []delivery.Event
	listeners := make(map[string][]listener)
	for _, e := range events {
		all, known := listeners[e.Project]
		if !known {
			err := f.endpoints.EachEndpoint(ctx, e.Project, upTo, func(one projects.Endpoint, added eventstore.Position) {
				all = append(all, listener{one, added})
			})
			if err != nil {
				return nil, fmt.Errorf("looking for webhook endpoints: %w", err)
			}
			listeners[e.Project] = all
		}
		for _, l := range all {
			kind, wanted := l.KindFor(e.Kind, e.Sequence)
			if l.added >= e.Position || !wanted {
				continue
			}
			unconfirmed, err := f.unconfirmed(ctx, e, l)
			if err != nil {
				return nil, err
			}
			if one := e; !unconfirmed || kind.Final() {
				one.Endpoint, one.Kind, one.Unconfirmed = l.ID, kind, unconfirmed
				out = append(out, one)
			}
		}
	}
	return out, nil
}

// unconfirmed reports whether the event may have been delivered before the
// lanes were made: it is not their base's newest that the endpoint wants of the
// payment.
func (f *FanOut) unconfirmed(ctx context.Context, e delivery.Event, l listener) (bool, error) {
	if e.Position > f.base {
		return false, nil
	}
	for r, err := range f.store.LoadAfter(ctx, eventstore.PaymentStream(e.Project, e.Payment), e.Position) {
		if errors.As(err, new(*eventstore.CorruptError)) {
			f.log.Error().Err(err).Stringer("payment", e.Payment).Msg("a payment cannot be read; its older webhooks are listed and not sent")
			return true, nil
		}
		if err != nil {
			return false, err
		}
		if r.Position > f.base {
			break
		}
		typ, err := bus.EventType(r.Body)
		if kind, notifies := domain.KindOfType(typ); err == nil && notifies && l.Wants(kind) {
			return true, nil
		}
	}
	return false, nil
}
