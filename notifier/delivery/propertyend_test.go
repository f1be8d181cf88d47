package delivery

import (
	"context"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/delivery/store"
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
			if undelivered++; uint64(p.base) < d.Position || !d.Type.Final() {
				return fmt.Errorf("%s: %s, %s at position %d, is unconfirmed with a file made at %d", e.ID, d.EventID, d.Type, d.Position, p.base)
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

// audit checks the file as bbolt and as the lanes see it, with all settled.
func (p *player) audit() error {
	return p.lanes.file.View(func(x store.Tables) error {
		for err := range x.Bolt().Check() {
			return err
		}
		for _, bucket := range []string{"due", "pending"} {
			if n := x.Bolt().Bucket([]byte(bucket)).Inspect().KeyN; n != 0 {
				return fmt.Errorf("%d rows are left in %s", n, bucket)
			}
		}
		return x.EachLane(func(k store.LaneKey, l store.Lane) error {
			if len(l.Line) > 0 || l.Started > l.Newest {
				return fmt.Errorf("lane %x: %+v", k, l)
			}
			return nil
		})
	})
}
