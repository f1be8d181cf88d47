package delivery

import (
	"context"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
)

// recoverAtOnce bounds the payments of one transaction.
const recoverAtOnce = 256

// RecoverSince sends an endpoint the newest state of each payment of which an
// event since then was not delivered: given up, parked or held. Payments whose
// lanes are no longer known count too; the log says what is newest of them.
// What was delivered already, or is in line, is left out. enqueued is how many
// were added, also with an error. Refusals: WebhookEndpointNotFound,
// WebhookEndpointDisabledCode.
func (l *Lanes) RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (enqueued int, err error) {
	e, err := l.live(ctx, project, endpoint)
	if err != nil {
		return 0, err
	}
	o := &recoverOp{after: domain.ID{}, more: true}
	if t := l.known(endpoint); t != nil {
		o.target, o.after = t, firstOf(since)
		for o.more {
			if err := ctx.Err(); err != nil {
				return o.enqueued, err
			}
			if err := l.writer.do(o); err != nil {
				return o.enqueued, err
			}
		}
	}
	n, err := l.recoverForgotten(ctx, project, e, since)
	return o.enqueued + n, err
}

// firstOf is the lowest id of an instant.
func firstOf(at domain.Instant) (id domain.ID) {
	_ = id.SetTime(uint64(max(at, 0))) // what is too late for an id finds nothing
	return id
}

// recoverOp makes those undelivered pending again that are their lane's
// newest, some at a time.
type recoverOp struct {
	target   *target
	after    domain.ID // from here on, in the order of events
	more     bool
	enqueued int
}

func (o *recoverOp) apply(x *tx) error {
	events := x.UndeliveredFrom(o.target.number, o.after, recoverAtOnce+1)
	if o.more = len(events) > recoverAtOnce; o.more {
		o.after, events = events[recoverAtOnce], events[:recoverAtOnce]
	}
	for _, event := range events {
		d, _, err := x.Record(o.target.number, event)
		if err != nil {
			return err
		}
		l, err := x.Lane(o.target.number, d.Payment)
		if err != nil {
			return err
		}
		if !l.Known || l.NewestEvent != event || d.Kind == domain.KindEndpointTest {
			continue
		}
		p := store.Entry{Sequence: d.Sequence, Event: event, Final: d.Kind.Final()}
		if !l.Resend(p, x.Now) {
			continue
		}
		x.again(o.target, l, d)
		o.enqueued++
	}
	return nil
}

// recoverForgotten looks through the log for payments that have no lane.
func (l *Lanes) recoverForgotten(ctx context.Context, project string, e domain.Endpoint, since domain.Instant) (int, error) {
	enqueued := 0
	var found []Event
	flush := func() error {
		if len(found) == 0 {
			return nil
		}
		o := &forgottenOp{events: found}
		found = nil
		err := l.writer.do(o)
		enqueued += o.enqueued
		return err
	}
	since = max(since, e.CreatedAt)
	from, err := store.PositionBefore(ctx, l.config.Ledger.Store, since)
	if err != nil {
		return 0, err
	}
	upTo, err := l.fannedOut()
	if err != nil {
		return 0, err
	}
	for r, err := range l.config.Ledger.Store.Scan(ctx, from, eventstore.Filter{Project: project, Kind: eventstore.KindPayment}) {
		if err != nil {
			return enqueued, err
		}
		if r.Position > upTo {
			break
		}
		event, err := l.config.Ledger.Codec.Decode(r)
		if err != nil {
			return enqueued, err
		}
		payment, ok := domain.ParseID(r.Stream.ID)
		k, notifies := domain.KindOf(event.Type())
		if !ok || !notifies || !e.Wants(k) || domain.IDTime(r.Commit) < since {
			continue
		}
		if known, err := l.laneKnown(e.ID, payment); known || err != nil {
			if err != nil {
				return enqueued, err
			}
			continue
		}
		newest, err := l.newest(ctx, e, project, payment, upTo)
		if err != nil {
			return enqueued, err
		}
		if newest.ID != r.Commit {
			continue // the newest one follows in this scan
		}
		if found = append(found, newest); len(found) == recoverAtOnce {
			if err := flush(); err != nil {
				return enqueued, err
			}
		}
	}
	return enqueued, flush()
}

func (l *Lanes) laneKnown(endpoint string, payment domain.ID) (known bool, err error) {
	t := l.known(endpoint)
	if t == nil {
		return false, nil
	}
	err = l.file.View(func(x store.Tables) error {
		at, err := x.Lane(t.number, payment)
		known = at.Known
		return err
	})
	return known, err
}

// forgottenOp adds events whose payments have no lane.
type forgottenOp struct {
	events   []Event
	enqueued int
}

func (o *forgottenOp) apply(x *tx) error {
	for _, e := range o.events {
		t := x.target(e.Project, e.Endpoint)
		at, err := x.Lane(t.number, e.Payment)
		if err != nil {
			return err
		}
		if at.Known {
			continue // the fan-out has enqueued it meanwhile
		}
		if err := x.enqueue(t, e, false, x.lanes.firstTry(x.Now)); err != nil {
			return err
		}
		o.enqueued++
	}
	return nil
}
