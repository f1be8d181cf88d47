package delivery

import (
	"context"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
)

// live finds an endpoint that may be sent something.
func (l *Lanes) live(ctx context.Context, project, endpoint string) (projects.Endpoint, error) {
	e, state, err := l.find(ctx, project, endpoint)
	switch {
	case err != nil:
		return e, err
	case state == domain.DeliveryCancelled:
		return e, &domain.Refusal{Code: domain.WebhookEndpointNotFound}
	case state == domain.DeliveryHeld:
		return e, &domain.Refusal{Code: domain.WebhookEndpointDisabledCode}
	}
	return e, nil
}

// Test sends endpoint.test to an endpoint, at once even while it is paused. It
// has a lane of its own. Errors:
// *domain.Refusal with WebhookEndpointNotFound or WebhookEndpointDisabledCode.
func (l *Lanes) Test(ctx context.Context, project, endpoint string) (domain.DeliveryObject, error) {
	e, err := l.live(ctx, project, endpoint)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	id := l.config.IDs.Next()
	var delivery domain.DeliveryObject
	err = l.writer.do(func(x *tx) (err error) {
		t := x.target(project, e.ID)
		event := Event{Project: project, Endpoint: t.id, Payment: id, ID: id, Kind: domain.KindEndpointTest, Sequence: 1}
		if err := x.enqueue(t, event, true, x.Now); err != nil {
			return err
		}
		delivery, err = x.sendNow(t, e, requested{id, id})
		return err
	})
	return delivery, err
}

// sendNow lets a delivery in line be sent now if its lane allows it, and returns
// it as it is before that.
func (x *tx) sendNow(t *target, e projects.Endpoint, a requested) (domain.DeliveryObject, error) {
	d, err := x.Pending(t.number, a.event)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	object, err := x.lanes.object(x.Tables, t, d)
	if err != nil {
		return object, err
	}
	if object.NextAttemptAt != nil {
		now := x.lanes.wallNow() // whatever the circuit breaker says
		object.NextAttemptAt = &now
	}
	t.request(a)
	return object, x.begin(t, e)
}

// Resend makes a delivery due now, with all tries before it, and sends it even
// while its endpoint is paused, unless an earlier outcome of the payment is in
// line before it, which keeps its own time. Only the newest
// event of a payment can be sent again, and one while nothing later was begun;
// for others the answer is a *domain.Refusal with DeliverySupersededCode and,
// as EventID, the event that can be. Other refusals: DeliveryNotFound,
// WebhookEndpointNotFound, WebhookEndpointDisabledCode.
func (l *Lanes) Resend(ctx context.Context, project, endpoint string, event domain.ID) (domain.DeliveryObject, error) {
	e, err := l.live(ctx, project, endpoint)
	if err != nil {
		return domain.DeliveryObject{}, err
	}
	t := l.known(endpoint)
	if t == nil {
		return domain.DeliveryObject{}, &domain.Refusal{Code: domain.DeliveryNotFound}
	}
	o := &resendOp{target: t, endpoint: e, event: event}
	if err := l.writer.do(o.apply); err != nil {
		return domain.DeliveryObject{}, err
	}
	if o.forgotten {
		// Only the log can say now whether it is the newest.
		upTo, err := l.fannedOut()
		if err != nil {
			return domain.DeliveryObject{}, err
		}
		newest, err := l.newest(ctx, e, project, o.payment, upTo)
		if err != nil {
			return domain.DeliveryObject{}, err
		}
		o.newest = &newest
		if err := l.writer.do(o.apply); err != nil {
			return domain.DeliveryObject{}, err
		}
	}
	if o.refusal != nil {
		return domain.DeliveryObject{}, o.refusal
	}
	return o.delivery, nil
}

// resendOp puts a delivery in line again.
type resendOp struct {
	target   *target
	endpoint projects.Endpoint
	event    domain.ID
	newest   *Event // of the payment, from the log; nil: not looked up

	payment   domain.ID
	forgotten bool // newest is needed
	refusal   *domain.Refusal
	delivery  domain.DeliveryObject
}

func (o *resendOp) apply(x *tx) error {
	d, ok, err := x.Record(o.target.number, o.event)
	if err != nil {
		return err
	}
	if !ok {
		o.refusal = &domain.Refusal{Code: domain.DeliveryNotFound}
		return nil
	}
	o.payment = d.Payment
	l, err := x.Lane(o.target.number, d.Payment)
	if err != nil {
		return err
	}
	p := store.Entry{Sequence: d.Sequence, Event: d.Event, Final: d.Kind.Final(), Requested: true}
	switch {
	case l.Known:
		if !l.Resend(p, x.Now) {
			o.refusal = &domain.Refusal{Code: domain.DeliverySupersededCode, EventID: l.NewestEvent}
			return nil
		}
	case d.Kind == domain.KindEndpointTest, o.newest != nil && o.newest.ID == d.Event:
		l.Enqueue(p, x.Now)
	case o.newest == nil:
		o.forgotten = true
		return nil
	default:
		o.refusal = &domain.Refusal{Code: domain.DeliverySupersededCode, EventID: o.newest.ID}
		return nil
	}
	x.again(o.target, l, d)
	o.delivery, err = x.sendNow(o.target, o.endpoint, requested{d.Payment, d.Event})
	return err
}

// again makes a delivery pending that was put in line again.
func (x *tx) again(t *target, l *store.LaneAt, d store.Record) {
	x.save(t, l)
	before := d.State
	d.State, d.Tries = domain.DeliveryPending, 0
	x.put(t, d, before)
}

// newest finds the last event of a payment that an endpoint is notified of,
// among those up to a position; zero if there is none.
func (l *Lanes) newest(ctx context.Context, e projects.Endpoint, project string, payment domain.ID, upTo eventstore.Position) (Event, error) {
	var found Event
	for r, err := range l.config.Ledger.Store.Load(ctx, eventstore.PaymentStream(project, payment)) {
		if err != nil {
			return found, err
		}
		if r.Position > upTo {
			break
		}
		event, err := l.config.Ledger.Codec.Decode(r)
		if err != nil {
			return found, err
		}
		k, notifies := domain.KindOf(event)
		if k, wanted := e.KindFor(k, r.Sequence); notifies && wanted {
			found = Event{
				Project: project, Endpoint: e.ID, Payment: payment, ID: r.Commit, Kind: k, Sequence: r.Sequence, Position: r.Position,
			}
		}
	}
	return found, nil
}

// fannedOut is the position up to which the log has been fanned out, or will be:
// the events from before the lane file was made are handed over again, as each
// payment's newest.
func (l *Lanes) fannedOut() (eventstore.Position, error) {
	after, base, err := l.Start()
	return max(after, base), err
}
