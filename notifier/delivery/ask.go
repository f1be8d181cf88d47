package delivery

import (
	"context"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// ask has something queued for an endpoint, and waits until it is.
func (l *Lanes) ask(ctx context.Context, endpoint string, entries ...deliveries.Entry) error {
	id, noted := l.config.IDs.Next(), deliveries.Noted{Endpoints: []string{endpoint}}
	for _, e := range entries {
		noted.Entries = append(noted.Entries, e.Text())
	}
	c, err := l.config.Ledger.Commit(eventstore.RequestedStream(id), eventstore.Stored{}, noted, eventstore.Order{EventID: id})
	if err != nil {
		return err
	}
	stored, err := eventstore.AppendOne(ctx, l.config.Ledger.Store, c)
	if err != nil {
		return err
	}
	return l.config.Rows.Wait(ctx, stored.Position)
}

// Test sends endpoint.test to an endpoint, at once even while it is paused. It
// has a lane of its own. Errors:
// *domain.Refusal with WebhookEndpointNotFound or WebhookEndpointDisabledCode.
func (l *Lanes) Test(ctx context.Context, project, endpoint string) (domain.DeliveryObject, error) {
	if _, err := l.live(ctx, project, endpoint); err != nil {
		return domain.DeliveryObject{}, err
	}
	id := l.config.IDs.Next()
	if err := l.ask(ctx, endpoint, deliveries.Entry{Payment: id, Sequence: 1, What: deliveries.Tested}); err != nil {
		return domain.DeliveryObject{}, err
	}
	return l.asked(endpoint, id)
}

// asked is a delivery that was asked for: it is tried now, also while the circuit breaker
// is open, if it is the first of its lane.
func (l *Lanes) asked(endpoint string, event domain.ID) (domain.DeliveryObject, error) {
	d, _, err := l.config.Rows.Delivery(endpoint, event)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	o, err := l.object(endpoint, d)
	if o.NextAttemptAt != nil {
		now := l.wallNow()
		o.NextAttemptAt = &now
	}
	return o, err
}

// Resend makes a delivery due now, with all tries before it, and sends it even
// while its endpoint is paused, unless an earlier outcome of the payment is
// queued before it, which keeps its own time. Only the newest
// event of a payment can be sent again, and one while nothing later was begun;
// for others the answer is a *domain.Refusal with DeliverySupersededCode and,
// as EventID, the event that can be. Other refusals: DeliveryNotFound,
// WebhookEndpointNotFound, WebhookEndpointDisabledCode.
func (l *Lanes) Resend(ctx context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error) {
	e, err := l.live(ctx, project, endpoint)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	d, known, err := l.config.Rows.Delivery(endpoint, event)
	if err == nil && !known {
		err = &domain.Refusal{Code: domain.DeliveryNotFound}
	}
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	lane, known, err := l.config.Rows.Lane(endpoint, d.Payment)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	newest := lane.NewestEvent
	if !known && d.Kind != domain.KindEndpointTest { // only the log can say now whether it is the newest
		if newest, err = l.newest(ctx, e, project, d.Payment); err != nil {
			return domain.DeliveryObject{}, err
		}
	}
	switch again := queued(d.Sequence, d.Event, d.Position, d.Kind); {
	case known && !lane.Resend(again, 0), !known && newest != event && d.Kind != domain.KindEndpointTest:
		return domain.DeliveryObject{}, &domain.Refusal{Code: domain.DeliverySupersededCode, EventID: newest}
	}
	err = l.ask(ctx, endpoint, deliveries.Entry{
		Payment: d.Payment, Sequence: d.Sequence, What: deliveries.Requested, Event: event, Kind: d.Kind, Position: d.Position,
	})
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	return l.asked(endpoint, event)
}

func queued(sequence uint64, event domain.ID, position uint64, k domain.Kind) deliveries.Queued {
	return deliveries.Queued{Sequence: sequence, Event: event, Position: position, Final: k.Final(), Requested: true}
}

// recoverAtOnce bounds the payments of one event.
const recoverAtOnce = 256

// RecoverSince sends an endpoint the newest state of each payment of which an
// event since then was not delivered: given up, parked or held. Payments whose
// lanes are no longer known count too; the log says what is newest of them.
// What was delivered already, or is queued, is left out. enqueued is how many
// were added, also with an error. Refusals: WebhookEndpointNotFound,
// WebhookEndpointDisabledCode.
func (l *Lanes) RecoverSince(ctx context.Context, project, endpoint string, since domain.Instant) (enqueued int, err error) {
	e, err := l.live(ctx, project, endpoint)
	if err != nil {
		return 0, err
	}
	since = max(since, e.CreatedAt)
	from, err := l.config.Views.PositionAt(ctx, since-1)
	if err != nil {
		return 0, err
	}
	var entries []deliveries.Entry
	flush := func() error {
		if len(entries) == 0 {
			return nil
		}
		err := l.ask(ctx, endpoint, entries...)
		if err == nil {
			enqueued += len(entries)
		}
		entries = nil
		return err
	}
	for r, err := range l.config.Ledger.Store.Scan(ctx, from, eventstore.Filter{Project: project, Kind: eventstore.KindPayment}) {
		if err != nil {
			return enqueued, err
		}
		if domain.IDTime(r.Commit) < since {
			continue
		}
		entry, ok, err := l.lost(ctx, e, r)
		if err != nil {
			return enqueued, err
		}
		if ok {
			entries = append(entries, entry)
		}
		if len(entries) == recoverAtOnce {
			if err := flush(); err != nil {
				return enqueued, err
			}
		}
	}
	return enqueued, flush()
}

// lost reports whether a record of a payment is the payment's newest event for the
// endpoint, and was not delivered. Then the entry queues it.
func (l *Lanes) lost(ctx context.Context, e projects.Endpoint, r eventstore.Stored) (entry deliveries.Entry, ok bool, err error) {
	decoded, err := l.config.Ledger.Codec.Decode(r)
	if err != nil {
		return entry, false, err
	}
	payment, ok := domain.ParseID(r.Stream.ID)
	kind, notifies := domain.KindOf(decoded)
	if !ok || !notifies {
		return entry, false, nil
	}
	entry = deliveries.Entry{
		Payment: payment, Sequence: r.Sequence, What: deliveries.Requested, Event: r.Commit, Kind: kind, Position: uint64(r.Position),
	}
	lane, known, err := l.config.Rows.Lane(e.ID, payment)
	if err != nil {
		return entry, false, err
	}
	if known {
		d, recorded, err := l.config.Rows.Delivery(e.ID, r.Commit)
		entry.Kind = d.Kind
		return entry, recorded && lane.NewestEvent == r.Commit && deliveries.Undelivered(d.State) &&
			lane.Resend(queued(r.Sequence, r.Commit, uint64(r.Position), d.Kind), 0), err
	}
	if entry.Kind, ok = e.KindFor(kind, r.Sequence); !ok {
		return entry, false, nil
	}
	newest, err := l.newest(ctx, e, r.Stream.Project, payment)
	return entry, newest == r.Commit, err
}
