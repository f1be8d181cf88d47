package projections

import (
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
)

// change is one event and what it did to its aggregate. before and after are
// nil where the payment, or the project, does not exist; all four are nil for
// an event of another kind.
type change struct {
	record        eventstore.Stored
	event         domain.Event
	before, after *paymentRow
	was, is       *domain.Project
	postings      []posted
}

// apply folds one record into every view. Only one goroutine at a time may
// call it.
func (e *Engine) apply(r eventstore.Stored) error {
	switch at := e.Position(); {
	case r.Position <= at:
		return nil
	case r.Position != at+1:
		return &eventstore.CorruptError{Position: at + 1, Reason: fmt.Sprintf("missing: position %d follows %d", r.Position, at)}
	}
	c, err := e.change(r)
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.pending = 0
	for _, v := range e.all {
		v.fold(c)
		e.pending += v.pending()
	}
	e.last = checkpointAt{r.Position, r.Commit}
	e.mu.Unlock()
	e.advance(r.Position)
	return nil
}

// change decodes a record and lets its aggregate evolve. What it has to read
// from the file it reads before the views are locked.
func (e *Engine) change(r eventstore.Stored) (change, error) {
	event, err := e.codec.Decode(r)
	if err != nil {
		return change{}, err
	}
	c := change{record: r, event: event, postings: e.post(r, event)}
	switch r.Stream.Kind {
	case eventstore.KindPayment:
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			return change{}, &eventstore.CorruptError{Position: r.Position, Reason: "the stream's id is not that of a payment"}
		}
		row, found, err := lookup(e, &e.payments.table, string(id[:]))
		if err != nil {
			return change{}, err
		}
		next := paymentRow{Payment: domain.Payment{Project: r.Stream.Project, ID: id}, Position: r.Position}
		if found {
			c.before, next = row, *row
		}
		next.Payment = next.Payment.Evolve(event)
		if next.Payment.Status != "" {
			c.after = &next
		}
	case eventstore.KindProject:
		next := domain.Project{ID: r.Stream.ID}
		if p, ok := e.projects.live[r.Stream.ID]; ok {
			c.was, next = p, *p
		}
		next = next.Evolve(event)
		if next.Name != "" {
			c.is = &next
		}
	}
	return c, nil
}
