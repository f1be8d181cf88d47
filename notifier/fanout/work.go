package fanout

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/bus"
	"payledger/notifier/delivery"
	"payledger/notifier/health"
	"payledger/notifier/queue"
)

// eventOf reads what the fan-out needs of an event that was delivered.
func eventOf(a bus.Event, kind domain.Kind) (delivery.Event, error) {
	e := delivery.Event{Project: a.Stream.Project, Kind: kind, Position: a.Position}
	var idOK, paymentOK bool
	e.ID, idOK = domain.ParseID(a.Header.Get(bus.HeaderID))
	e.Payment, paymentOK = domain.ParseID(a.Stream.ID)
	sequence, err := strconv.ParseUint(a.Header.Get(bus.HeaderStreamSequence), 10, 64)
	e.Sequence = sequence
	if !idOK || !paymentOK || err != nil {
		return e, &bus.StrayError{Position: a.Position}
	}
	return e, nil
}

// work deals with what was taken and notes how far it got.
func (f *FanOut) work(ctx context.Context) error {
	tick := time.NewTicker(noteEvery)
	defer tick.Stop()
	var spare []delivery.Event
	for {
		f.mu.Lock()
		events, taken := f.ahead, f.taken
		f.ahead = spare[:0]
		f.mu.Unlock()
		queue.Poke(f.room)
		spare = events
		err := f.settle(ctx, events, taken)
		if err == nil {
			select {
			case <-f.news:
			case <-ctx.Done():
				f.noteLast(ctx)
			case <-tick.C:
				err = f.note(ctx, taken, nil)
			}
		}
		var stray *bus.StrayError
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &stray):
			f.trouble.Set(err)
			f.reader.Doubt(stray.Position)
			f.rewind()
			f.retry.Wait(ctx)
		case err != nil:
			return err
		}
	}
}

// rewind drops what was taken and not dealt with: it is read again.
func (f *FanOut) rewind() {
	f.mu.Lock()
	f.ahead, f.taken, f.attached = nil, eventstore.Position(f.done.Load()), false
	f.mu.Unlock()
	queue.Poke(f.detached)
	queue.Poke(f.room)
}

// settle enqueues what the events lead to. All up to taken is dealt with then.
func (f *FanOut) settle(ctx context.Context, events []delivery.Event, taken eventstore.Position) error {
	for len(events) > 0 {
		batch := events[:min(len(events), fanOutBatch)]
		events = events[len(batch):]
		upTo := batch[len(batch)-1].Position
		var all []delivery.Event
		err := f.insist(ctx, func() (err error) {
			all, err = f.addressed(ctx, batch, upTo)
			return err
		})
		if err == nil && len(all) > 0 {
			err = f.note(ctx, upTo, all)
		}
		if err != nil {
			return err
		}
		f.done.Store(uint64(upTo))
	}
	f.done.Store(uint64(taken))
	return nil
}

// note lets the lanes have the events and know how far it got.
func (f *FanOut) note(ctx context.Context, upTo eventstore.Position, events []delivery.Event) error {
	if upTo <= f.noted {
		return nil
	}
	err := f.insist(ctx, func() error {
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
		f.noted = upTo
		f.enqueued.Add(float64(len(events)))
	}
	return err
}

// noteLast spares the next start what was dealt with; nothing is lost without.
func (f *FanOut) noteLast(ctx context.Context) {
	done := eventstore.Position(f.done.Load())
	if done <= f.noted {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteAtEnd)
	defer cancel()
	if err := f.lanes.Enqueue(ctx, done, nil); err != nil {
		f.log.Debug().Err(err).Msg("how far events were enqueued for webhooks could not be noted")
	}
}

// insist repeats what fails for now. The error is the context's, a
// *strayError, or the end of the store.
func (f *FanOut) insist(ctx context.Context, step func() error) error {
	for {
		err := step()
		if ctx.Err() != nil && err != nil {
			return ctx.Err()
		}
		if errors.As(err, new(*bus.StrayError)) || health.Ends(err) {
			return err
		}
		f.trouble.Set(err)
		if err == nil {
			f.retry.Reset()
			return nil
		}
		if !f.retry.Wait(ctx) {
			return ctx.Err()
		}
	}
}

// listener is a webhook endpoint as it is at the end of a batch.
type listener struct {
	domain.Endpoint
	added eventstore.Position
}

// addressed answers who is to be told of which events. The endpoints are as
// they are at upTo or later: who subscribes to more kinds hears of more at
// once, and who leaves of nothing.
func (f *FanOut) addressed(ctx context.Context, events []delivery.Event, upTo eventstore.Position) ([]delivery.Event, error) {
	var out []delivery.Event
	listeners := make(map[string][]listener)
	for _, e := range events {
		all, known := listeners[e.Project]
		if !known {
			err := f.endpoints.EachEndpoint(ctx, e.Project, upTo, func(one domain.Endpoint, added eventstore.Position) {
				all = append(all, listener{one, added})
			})
			if err != nil {
				return nil, fmt.Errorf("looking for webhook endpoints: %w", err)
			}
			listeners[e.Project] = all
		}
		var past []told
		for _, l := range all {
			if l.added >= e.Position || !l.Wants(e.Kind) {
				continue
			}
			if past == nil {
				var err error
				if past, err = f.past(ctx, e); errors.As(err, new(*eventstore.CorruptError)) {
					f.log.Error().Err(err).Stringer("payment", e.Payment).Msg("nobody is notified of a payment that cannot be read")
					break
				} else if err != nil {
					return nil, err
				}
			}
			e.Endpoint = l.ID
			e.Unconfirmed = e.Position <= f.base && newest(past, l) != e.Position
			if !e.Unconfirmed || e.Kind.Final() {
				out = append(out, e)
			}
		}
	}
	return out, nil
}

// told is an event of a payment that can lead to a notification.
type told struct {
	position eventstore.Position
	kind     domain.Kind
}

// newest is the position of the last event that the endpoint wants.
func newest(past []told, l listener) (at eventstore.Position) {
	for _, t := range past {
		if l.Wants(t.kind) {
			at = t.position
		}
	}
	return at
}

// past reads from the log what became of the event's payment up to base, or up
// to the event if that is later, and makes sure that the event is the log's.
func (f *FanOut) past(ctx context.Context, e delivery.Event) (past []told, err error) {
	found := false
	for r, err := range f.store.Load(ctx, eventstore.PaymentStream(e.Project, e.Payment)) {
		if err != nil {
			return nil, err
		}
		if r.Position > max(f.base, e.Position) {
			break
		}
		typ, err := bus.EventType(r.Body)
		if err != nil {
			return nil, &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
		}
		kind, tells := domain.KindOf(typ)
		if tells {
			past = append(past, told{r.Position, kind})
		}
		if r.Position == e.Position {
			found = r.Commit == e.ID && r.Sequence == e.Sequence && kind == e.Kind
		}
	}
	if !found {
		return nil, &bus.StrayError{Position: e.Position}
	}
	return past, nil
}
