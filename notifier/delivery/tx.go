package delivery

import (
	"fmt"

	"payledger/domain"
	"payledger/notifier/delivery/store"
)

// tx is a transaction of the writer's goroutine, with what it means to the
// endpoints.
type tx struct {
	*store.Tx
	lanes   *Lanes
	changed map[*target]struct{} // their tallies
	offered map[*target]struct{} // lanes that wait
	sending bool                 // attempts may begin
	begun   []attempt            // to be made when the transaction is synced
}

// change applies operations in one transaction. Whatever becomes of the process,
// the file holds all of them or none. When Update returns they are synced: only
// then are attempts made.
func (l *Lanes) change(group []*waiting) error {
	x := &tx{lanes: l, sending: l.sending(), changed: make(map[*target]struct{}), offered: make(map[*target]struct{})}
	err := l.file.Update(l.clock.now(), func(of *store.Tx) error {
		x.Tx = of
		for _, p := range group {
			if err := p.op(x); err != nil {
				return err
			}
		}
		for t := range x.changed {
			of.PutEndpoint(t.number, t.project, t.id, t.counted())
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("writing the lane file %s: %w", l.config.Path, err)
	}
	l.mu.Lock()
	if l.running != nil { // otherwise they are made again after the next start
		sending := l.running.sending
		for _, a := range x.begun {
			l.attempts.Go(func() { l.attempt(sending, a) })
		}
	}
	l.mu.Unlock()
	for t := range x.offered {
		t.nudge()
	}
	return nil
}

// target finds an endpoint, or takes in a new one.
func (x *tx) target(project, id string) *target {
	l := x.lanes
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.targets[id]; t != nil {
		return t
	}
	l.highest++
	t := l.newTarget(l.highest, project, id, store.Tally{})
	t.window.all = true
	l.targets[id] = t
	if l.running != nil {
		l.running.serve(t)
	}
	x.changed[t] = struct{}{}
	x.SetHighest(l.highest)
	return t
}

// inFlight reports whether an attempt of the lane is under way.
func (x *tx) inFlight(l *store.LaneAt) bool { return x.lanes.underWay[l.Key()] }

// save writes a lane and offers it to its endpoint unless an attempt is under
// way: the end of that will.
func (x *tx) save(t *target, l *store.LaneAt) {
	key, waits, waited := x.SaveLane(l)
	if waits != waited {
		x.count(t, func(n *store.Tally) { n.Lanes += one(waits) - one(waited) })
	}
	if waits && !x.inFlight(l) {
		t.offer(key)
		x.offered[t] = struct{}{}
	}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count changes an endpoint's tally.
func (x *tx) count(t *target, change func(*store.Tally)) {
	t.mu.Lock()
	change(&t.tally)
	t.mu.Unlock()
	x.changed[t] = struct{}{}
}

// put writes a delivery, which was in the state before ("": not recorded).
func (x *tx) put(t *target, d store.Record, before domain.DeliveryState) {
	x.PutRecord(t.number, d, before)
	if before != d.State {
		x.count(t, func(n *store.Tally) {
			n.Add(before, -1)
			n.Add(d.State, 1)
		})
	}
}

// settle ends a delivery that stood in line.
func (x *tx) settle(t *target, event domain.ID, state domain.DeliveryState) error {
	d, err := x.Pending(t.number, event)
	if err != nil {
		return err
	}
	d.State = state
	x.put(t, d, domain.DeliveryPending)
	return nil
}
