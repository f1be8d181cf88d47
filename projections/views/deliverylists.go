package views

import (
	"context"
	"maps"
	"slices"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/eventstore"
	"payledger/projections/table"
)

// Deliveries are the views of webhooks.
func (v *Views) Deliveries() *Deliveries { return v.deliveries }

// Watch lets a sender be told from now on; nil: none is.
func (v *Deliveries) Watch(w *deliveries.Watch) { v.watch.Store(w) }

// Fresh waits until the views reflect every event that the log holds now.
func (v *Deliveries) Fresh(ctx context.Context) error {
	_, err := v.log.Fresh(ctx, eventstore.Filter{})
	return err
}

// Wait waits until the views reflect the log up to the position or further.
func (v *Deliveries) Wait(ctx context.Context, p eventstore.Position) error {
	return v.log.Wait(ctx, p)
}

// State is what is known of all senders.
func (v *Deliveries) State() deliveries.State {
	v.db.RLock()
	defer v.db.RUnlock()
	return v.state
}

// Endpoints are all that ever were, by id.
func (v *Deliveries) Endpoints() map[string]*deliveries.Endpoint {
	v.db.RLock()
	defer v.db.RUnlock()
	return maps.Clone(v.endpoints)
}

// Endpoint is what is counted of an endpoint; zero for one that never was.
func (v *Deliveries) Endpoint(id string) (e deliveries.Endpoint) {
	v.db.RLock()
	defer v.db.RUnlock()
	if one := v.endpoints[id]; one != nil {
		e = *one
	}
	return e
}

// Lane is an endpoint's lane of a payment, which the caller may change; false: it is not
// known, or no longer.
func (v *Deliveries) Lane(endpoint string, payment domain.ID) (l deliveries.Lane, known bool, err error) {
	found, known, err := v.lanes.Get(laneKey(endpoint, payment))
	if known && err == nil {
		l = *found
		l.Queue = slices.Clone(l.Queue)
	}
	return l, known, err
}

// Delivery is that of an event to an endpoint. Its attempts must not be modified.
func (v *Deliveries) Delivery(endpoint string, event domain.ID) (d deliveries.Delivery, known bool, err error) {
	found, known, err := v.records.Get(deliveryKey(endpoint, event))
	if known && err == nil {
		d = *found
	}
	return d, known, err
}

// Due lists up to n keys of an endpoint's lanes with something queued, after one.
func (v *Deliveries) Due(ctx context.Context, endpoint string, after deliveries.DueKey, n int) ([]deliveries.DueKey, error) {
	in := table.Prefix(endpoint + "\x00")
	if after != (deliveries.DueKey{}) {
		in.Lo = queuedKey(endpoint, after) + "\x00"
	}
	rows, err := v.due.First(ctx, in, false, n)
	keys := make([]deliveries.DueKey, len(rows))
	for i, r := range rows {
		keys[i] = deliveries.DueKey([]byte(r.Key[len(endpoint)+1:]))
	}
	return keys, err
}

// Page lists up to limit of an endpoint's deliveries by event, the newest first, before
// one (the zero id: all), that are in a state ("": any). It looks at no more than look
// of them; last is the one it looked at last, zero at the end of the list.
func (v *Deliveries) Page(ctx context.Context, endpoint string, s domain.DeliveryState, before domain.ID, limit, look int) (found []deliveries.Delivery, last domain.ID, err error) {
	of := v.listed
	if s == domain.DeliveryPending {
		of = v.pending
	}
	rest := table.Prefix(endpoint + "\x00")
	if !before.IsZero() {
		rest.Hi = listedKey(endpoint, before)
	}
	for {
		rows, next, err := of.Window(ctx, rest, true, min(look, table.MaxWindow))
		if err != nil {
			return nil, last, err
		}
		look -= len(rows)
		for i, r := range rows {
			last = idOf(r.Key)
			if s != "" && of == v.listed && r.Value != string(s) {
				continue
			}
			d, known, err := v.Delivery(endpoint, last)
			if err != nil {
				return nil, last, err
			}
			if known && (s == "" || d.State == s) {
				found = append(found, d)
			}
			if len(found) == limit && (next != nil || i < len(rows)-1) {
				return found, last, nil
			}
		}
		if next == nil {
			return found, domain.ID{}, nil
		}
		if look <= 0 {
			return found, last, nil
		}
		rest = *next
	}
}

// Outdated reports whether there may be rows that can be forgotten at an instant.
func (v *Deliveries) Outdated(ctx context.Context, now domain.Instant) (bool, error) {
	oldest, err := v.records.First(ctx, table.Range{Hi: idKey(firstID(now.Add(-domain.KeepDeliveries)))}, false, 1)
	if err != nil || len(oldest) > 0 {
		return err == nil, err
	}
	lanes, err := v.lanes.First(ctx, table.Range{Hi: idKey(firstID(now.Add(-keepLanes)))}, false, 1)
	return len(lanes) > 0, err
}

// Of lists the deliveries of an event, by endpoint.
func (v *Deliveries) Of(ctx context.Context, event domain.ID) (endpoints []string, all []deliveries.Delivery, err error) {
	rows, err := v.records.First(ctx, table.Prefix(idKey(event)), false, table.MaxWindow)
	for _, r := range rows {
		endpoints, all = append(endpoints, r.Key[idSize:]), append(all, *r.Value)
	}
	return endpoints, all, err
}

// OldestPending is the event of an endpoint's oldest delivery that is pending.
func (v *Deliveries) OldestPending(ctx context.Context, endpoint string) (event domain.ID, ok bool, err error) {
	rows, err := v.pending.First(ctx, table.Prefix(endpoint+"\x00"), false, 1)
	if len(rows) > 0 {
		return idOf(rows[0].Key), true, err
	}
	return event, false, err
}
