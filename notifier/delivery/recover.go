package delivery

import (
	"context"

	"payledger/domain"
	"payledger/domain/projects"
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
	since = max(since, e.CreatedAt)
	from, err := store.PositionBefore(ctx, l.config.Ledger.Store, since)
	if err != nil {
		return 0, err
	}
	upTo, err := l.fannedOut()
	if err != nil {
		return 0, err
	}
	var events []Event
	flush := func() error {
		err := l.writer.do(func(x *tx) error {
			n, err := x.recover(events)
			enqueued += n
			return err
		})
		events = events[:0]
		return err
	}
	for r, err := range l.config.Ledger.Store.Scan(ctx, from, eventstore.Filter{Project: project, Kind: eventstore.KindPayment}) {
		if err != nil {
			return enqueued, err
		}
		if r.Position > upTo {
			break
		}
		if domain.IDTime(r.Commit) < since {
			continue
		}
		event, ok, err := l.lost(ctx, e, r, upTo)
		if err != nil {
			return enqueued, err
		}
		if ok {
			events = append(events, event)
		}
		if len(events) == recoverAtOnce {
			if err := flush(); err != nil {
				return enqueued, err
			}
		}
	}
	if len(events) > 0 {
		err = flush()
	}
	return enqueued, err
}

// lost reports whether a record of a payment is the payment's newest event for the
// endpoint, and was not delivered.
func (l *Lanes) lost(ctx context.Context, e projects.Endpoint, r eventstore.Stored, upTo eventstore.Position) (event Event, ok bool, err error) {
	decoded, err := l.config.Ledger.Codec.Decode(r)
	if err != nil {
		return event, false, err
	}
	payment, ok := domain.ParseID(r.Stream.ID)
	kind, notifies := domain.KindOf(decoded)
	if !ok || !notifies {
		return event, false, nil
	}
	event = Event{
		Project: r.Stream.Project, Endpoint: e.ID, Payment: payment, ID: r.Commit, Kind: kind, Sequence: r.Sequence, Position: r.Position,
	}
	if t := l.known(e.ID); t != nil {
		var lane *store.LaneAt
		err := l.file.View(func(x store.Tables) (err error) {
			lane, _, ok, err = recoverable(x, t.number, event)
			return err
		})
		if err != nil || lane.Known {
			return event, ok, err
		}
	}
	if event.Kind, ok = e.KindFor(kind, r.Sequence); !ok {
		return event, false, nil
	}
	newest, err := l.newest(ctx, e, r.Stream.Project, payment, upTo)
	return event, newest.ID == r.Commit, err
}

// recoverable reports whether an event can be put in line: its lane is not known,
// or it is the lane's newest and was not delivered.
func recoverable(x store.Tables, to store.Number, e Event) (l *store.LaneAt, d store.Record, ok bool, err error) {
	if l, err = x.Lane(to, e.Payment); err != nil || !l.Known {
		return l, d, true, err
	}
	d, ok, err = x.Record(to, e.ID)
	return l, d, ok && l.NewestEvent == e.ID && store.Undelivered(d.State), err
}

// recover puts those of the events in line that still can be.
func (x *tx) recover(events []Event) (enqueued int, err error) {
	for _, e := range events {
		t := x.target(e.Project, e.Endpoint)
		l, d, ok, err := recoverable(x.Tables, t.number, e)
		switch {
		case err != nil:
			return enqueued, err
		case !ok:
			continue
		case !l.Known:
			err = x.enqueue(t, e, false, x.lanes.firstTry(x.Now))
		case l.Resend(store.Entry{Sequence: e.Sequence, Event: e.ID, Final: e.Kind.Final()}, x.Now):
			x.again(t, l, d)
		default:
			continue
		}
		if err != nil {
			return enqueued, err
		}
		enqueued++
	}
	return enqueued, nil
}
