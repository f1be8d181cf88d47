package projections

import (
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// change is one event and what it means, but for its payment. was and is are
// nil where the project does not exist, and for an event of another kind.
type change struct {
	decoded
	was, is  *domain.Project
	postings []posted
	days     []dayEntry
}

// apply folds one record into every view. Only one goroutine at a time may
// call it.
func (e *Engine) apply(r eventstore.Stored) error {
	event, err := e.codec.Event(r)
	return e.fold(decoded{r, event, translog.Leaf(r.Body), err})
}

func (e *Engine) fold(d decoded) error {
	if done, err := e.follows(d.record.Position); done || err != nil {
		return err
	}
	c := &e.change
	if err := e.mean(d, c); err != nil {
		return err
	}
	var before, after *paymentRow
	if d.record.Stream.Kind == eventstore.KindPayment {
		id, err := paymentID(d.record)
		if err != nil {
			return err
		}
		if before, after, err = e.row(d.record, id); err != nil {
			return err
		}
		if after.Payment = after.Payment.Evolve(d.event); after.Payment.Status != "" {
			if c.days, err = e.countDays(d.record, d.event, statusOf(before), &after.Payment); err != nil {
				return err
			}
		}
	}
	e.tell(c, before, after)
	return nil
}

// follows reports whether the record at the position was folded before; the
// error is that it is not the next one.
func (e *Engine) follows(p eventstore.Position) (done bool, err error) {
	switch at := e.Position(); {
	case p <= at:
		return true, nil
	case p != at+1:
		return false, &eventstore.CorruptError{Position: at + 1, Reason: fmt.Sprintf("missing: position %d follows %d", p, at)}
	}
	return false, nil
}

// tell lets the views follow a change, and moves on to its position. after is
// nil or without a status unless the change is one of a payment there is.
func (e *Engine) tell(c *change, before, after *paymentRow) {
	e.mu.Lock()
	if after != nil && after.Payment.Status != "" {
		e.moved.add(before, after)
		e.payments.lately.set(entry[*paymentRow]{key: idKey(after.Payment.ID), value: after})
	}
	for _, v := range e.ofEvents {
		v.fold(c)
	}
	if len(e.moved) >= e.settleAt {
		e.settle()
	}
	e.last = checkpointAt{c.record.Position, c.record.Commit}
	e.count()
	e.mu.Unlock()
	e.advance(c.record.Position)
}

// count finds out how much the next flush will have to write, or more. mu is
// held.
func (e *Engine) count() {
	e.pending = len(e.moved) * len(e.ofPayments)
	for _, v := range e.all {
		e.pending += v.pending()
	}
}

// mean finds out what an event means, but for its payment.
func (e *Engine) mean(d decoded, c *change) error {
	if d.err != nil {
		return d.err
	}
	*c = change{decoded: d, postings: e.post(d.record, d.event), days: c.days[:0]}
	if s := d.record.Stream; s.Kind == eventstore.KindProject {
		next := domain.Project{ID: s.ID}
		if p, ok := e.projects.live.at(s.ID); ok {
			c.was, next = p, *p
		}
		next = next.Evolve(d.event)
		if next.Name != "" {
			c.is = &next
		}
	}
	return nil
}

func statusOf(row *paymentRow) domain.PaymentStatus {
	if row == nil {
		return ""
	}
	return row.Payment.Status
}

func paymentID(r eventstore.Stored) (domain.ID, error) {
	id, ok := domain.ParseID(r.Stream.ID)
	if !ok {
		return id, &eventstore.CorruptError{Position: r.Position, Reason: "the stream's id is not that of a payment"}
	}
	return id, nil
}

// row is the payment before the record, nil if it does not exist, and the row
// that goes on from it.
func (e *Engine) row(r eventstore.Stored, id domain.ID) (before, next *paymentRow, err error) {
	next = &paymentRow{Payment: domain.Payment{Project: r.Stream.Project, ID: id}, Position: r.Position}
	if r.Sequence == 1 {
		return nil, next, nil // opens the stream
	}
	before, found, err := e.paymentSince(id, e.payments.lately.stands(idKey(id)), r.Prev)
	if err != nil || !found {
		return nil, next, err
	}
	*next = *before
	return before, next, nil
}
