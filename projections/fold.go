package projections

import (
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// change is one event and what it did to its aggregate. before and after are
// nil where the payment, or the project, does not exist; all four are nil for
// an event of another kind.
//
// The views of payments are also told of several events of a payment at once:
// before is then its state before the first and after that after the last of
// them, and nothing else is set. The other views are then told of each event,
// without before and after.
type change struct {
	decoded
	before, after *paymentRow
	was, is       *domain.Project
	postings      []posted
	days          []dayEntry
}

// apply folds one record into every view. Only one goroutine at a time may
// call it.
func (e *Engine) apply(r eventstore.Stored) error {
	if done, err := e.follows(r.Position); done || err != nil {
		return err
	}
	event, err := e.codec.Event(r)
	c, err := e.change(decoded{r, event, translog.Leaf(r.Body), err})
	if err != nil {
		return err
	}
	if r.Stream.Kind == eventstore.KindPayment {
		id, err := paymentID(r)
		if err != nil {
			return err
		}
		before, after, err := e.row(r, id)
		if err != nil {
			return err
		}
		c.before = before
		if after.Payment = after.Payment.Evolve(c.event); after.Payment.Status != "" {
			c.after = &after
			if c.days, err = e.countDays(r, c.event, statusOf(before), &after.Payment); err != nil {
				return err
			}
		}
	}
	e.tell(e.all, c)
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

// tell lets the views follow a change, and moves on to its position.
func (e *Engine) tell(views []view, c change) {
	e.mu.Lock()
	e.pending = 0
	for _, v := range views {
		v.fold(c)
		e.pending += v.pending()
	}
	e.last = checkpointAt{c.record.Position, c.record.Commit}
	e.mu.Unlock()
	e.advance(c.record.Position)
}

// change says what an event means, but for its payment.
func (e *Engine) change(d decoded) (change, error) {
	if d.err != nil {
		return change{}, d.err
	}
	c := change{decoded: d, postings: e.post(d.record, d.event)}
	if s := d.record.Stream; s.Kind == eventstore.KindProject {
		next := domain.Project{ID: s.ID}
		if p, ok := e.projects.live[s.ID]; ok {
			c.was, next = p, *p
		}
		next = next.Evolve(d.event)
		if next.Name != "" {
			c.is = &next
		}
	}
	return c, nil
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
// from which it goes on. It is read from the file before the views are locked.
func (e *Engine) row(r eventstore.Stored, id domain.ID) (before *paymentRow, next paymentRow, err error) {
	next = paymentRow{Payment: domain.Payment{Project: r.Stream.Project, ID: id}, Position: r.Position}
	if r.Sequence == 1 {
		return nil, next, nil // opens the stream
	}
	row, found, err := lookup(e, &e.payments.table, string(id[:]))
	if err != nil || !found {
		return nil, next, err
	}
	return row, *row, nil
}
