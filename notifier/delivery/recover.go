package delivery

import (
	"context"
	"sort"

	"payledger/domain"
	"payledger/eventstore"
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
	events := idsFrom(x.undelivered, o.target, o.after, recoverAtOnce+1)
	if o.more = len(events) > recoverAtOnce; o.more {
		o.after, events = events[recoverAtOnce], events[:recoverAtOnce]
	}
	for _, event := range events {
		d, _, err := x.record(o.target, event)
		if err != nil {
			return err
		}
		l, err := x.laneOf(o.target, d.payment)
		if err != nil {
			return err
		}
		if !l.known || l.newestEvent != event || d.kind == domain.KindEndpointTest {
			continue
		}
		p := place{sequence: d.sequence, event: event, final: d.kind.Final()}
		if !l.resend(p, x.now) {
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
	from, err := positionBefore(ctx, l.config.Ledger.Store, since)
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
		k, told := domain.KindOf(event.Type())
		if !ok || !told || !e.Wants(k) || domain.IDTime(r.Commit) < since {
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
			continue // that one is still to come
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
	err = l.view(func(x tables) error {
		known = x.lane.Get(t.keyLane(payment)) != nil
		return nil
	})
	return known, err
}

// positionBefore finds where in the log to begin so as to meet everything
// since then. Times in the log rise but for events that were under way at the
// same moment.
func positionBefore(ctx context.Context, log eventstore.Store, since domain.Instant) (eventstore.Position, error) {
	last, err := log.Last(ctx)
	if err != nil {
		return 0, err
	}
	const underWay = 1 << 13 // more than a log takes up at once
	n := sort.Search(int(last), func(i int) bool {
		for r, scanErr := range log.Scan(ctx, eventstore.Position(i), eventstore.Filter{}) {
			if scanErr != nil {
				err = scanErr
				return true
			}
			return domain.IDTime(r.Commit) >= since
		}
		return true
	})
	return eventstore.Position(max(n-underWay, 0)), err
}

// forgottenOp adds events whose payments have no lane.
type forgottenOp struct {
	events   []Event
	enqueued int
}

func (o *forgottenOp) apply(x *tx) error {
	for _, e := range o.events {
		t, err := x.target(e.Project, e.Endpoint)
		if err != nil {
			return err
		}
		if x.lane.Get(t.keyLane(e.Payment)) != nil {
			continue // it has come by itself meanwhile
		}
		if err := x.enqueue(t, e, false, x.lanes.firstTry(x.now)); err != nil {
			return err
		}
		o.enqueued++
	}
	return nil
}
