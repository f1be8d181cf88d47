package delivery

import (
	"context"
	"fmt"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// finish lets all be well and waits for the longest retry; then everything
// has to be settled, and what tells an outcome delivered or listed.
func (p *player) finish() error {
	for _, e := range p.state().Endpoints {
		p.net.set(e.ID, fine)
		p.project(projects.EnableEndpoint{EndpointID: e.ID})
	}
	if err := p.fanOut(); err != nil {
		return err
	}
	time.Sleep(32 * time.Hour)
	for _, e := range p.state().Endpoints {
		all, err := p.list(domain.DeliveryFilter{Endpoint: e.ID})
		if err != nil {
			return err
		}
		if err := p.judge(e, all); err != nil {
			return err
		}
	}
	return p.audit()
}

func (p *player) judge(e projects.Endpoint, all []domain.DeliveryObject) error {
	states := make(map[domain.ID]domain.DeliveryState)
	undelivered := 0
	for _, d := range all {
		states[d.EventID] = d.State
		switch d.State {
		case domain.DeliveryDelivered:
			if !p.net.answered(e.ID, d.EventID) {
				return fmt.Errorf("%s: %s is recorded as delivered and never was", e.ID, d.EventID)
			}
		case domain.DeliveryGivenUp, domain.DeliveryParked, domain.DeliveryHeld:
			undelivered++
		case domain.DeliveryUnconfirmed:
			if undelivered++; p.base < d.Position || !d.Type.Final() {
				return fmt.Errorf("%s: %s, %s at position %d, is unconfirmed with a log restored at %d", e.ID, d.EventID, d.Type, d.Position, p.base)
			}
		case domain.DeliverySuperseded:
			if d.Type.Final() {
				return fmt.Errorf("%s: %s, %s, was superseded", e.ID, d.EventID, d.Type)
			}
		default:
			return fmt.Errorf("%s: %s, sequence %d, is %s, due %v at %v: attempts %+v", e.ID, d.EventID, d.Sequence, d.State, d.NextAttemptAt, p.now(), d.Attempts)
		}
	}
	h, err := p.lanes.Health(context.Background(), e.ID)
	if err != nil || h.Pending != 0 || h.Undelivered != undelivered {
		return fmt.Errorf("%s: health %+v, %w; want %d undelivered", e.ID, h, err, undelivered)
	}
	for r, err := range p.ledger.Store.Scan(context.Background(), 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return err
		}
		event, err := p.ledger.Codec.Decode(r)
		if err != nil {
			return err
		}
		if k, ok := domain.KindOf(event); ok && e.Wants(k) && k.Final() && states[r.Commit] == "" {
			return fmt.Errorf("%s: %s at position %d, %s, is neither delivered nor listed", e.ID, r.Commit, r.Position, k)
		}
	}
	return nil
}

// audit checks the rows, with all settled.
func (p *player) audit() error {
	rows := p.views.Deliveries()
	for _, e := range p.state().Endpoints {
		if n := rows.Endpoint(e.ID); n.Lanes != 0 || n.Pending != 0 {
			return fmt.Errorf("%s: %+v", e.ID, n)
		}
		for _, id := range p.payments {
			l, _, err := rows.Lane(e.ID, id)
			if err != nil || len(l.Queue) > 0 || l.Started > l.Newest {
				return fmt.Errorf("lane %s of %s: %+v, %w", id, e.ID, l, err)
			}
		}
	}
	return p.views.Snapshot(context.Background(), func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			return err
		}
		for _, bucket := range []string{"webhook_due", "deliveries_pending"} {
			if n := tx.Bucket([]byte(bucket)).Inspect().KeyN; n != 0 {
				return fmt.Errorf("%d rows are left in %s", n, bucket)
			}
		}
		return nil
	})
}
