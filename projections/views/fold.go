package views

import (
	"context"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// Decoded is a record with its event.
type Decoded struct {
	Record eventstore.Stored
	Event  domain.Event
	Leaf   tlog.Hash // of the record's bytes, in the log's Merkle tree
}

// change is one event with its effects. A payment or project that does not exist
// is nil, and so is one of another kind than the event's.
type change struct {
	Decoded
	projectBefore, projectAfter *projects.Project
	paymentBefore, paymentAfter *PaymentRow
	settlement                  []func() // changes of the tables of settlementsView
}

// Writer folds events into the views. Only one goroutine uses it.
type Writer struct {
	// MaxPending is the number of changed payments at which the views of payments
	// are updated, unless a read comes first.
	MaxPending int
	// ProjectsOnly leaves out all views but the list of projects, StateOnly all but that and the payments.
	ProjectsOnly, StateOnly bool

	views  *Views
	change change // the one that Prepare made
}

// Prepare computes the effects of an event, once all events before it were folded. It may read the
// file, and the DB is not locked. An event that does not follow from those before it is a
// *eventstore.CorruptError.
func (w *Writer) Prepare(d Decoded) error {
	w.change = change{Decoded: d}
	if w.ProjectsOnly && d.Record.Stream.Kind != eventstore.KindProject {
		return nil
	}
	switch d.Record.Stream.Kind {
	case eventstore.KindProject:
		w.prepareProject()
	case eventstore.KindPayment:
		if err := w.preparePayment(); err != nil {
			return err
		}
	}
	if w.StateOnly {
		return nil
	}
	if d.Record.Stream.Kind == eventstore.KindSettlement {
		if err := w.views.settlements.prepare(&w.change); err != nil {
			return err
		}
	}
	return w.views.deliveries.prepare(&w.change)
}

func (w *Writer) prepareProject() {
	c := &w.change
	after := projects.Project{ID: c.Record.Stream.ID}
	if p, ok := w.views.projects.live.at(after.ID); ok {
		c.projectBefore, after = p, *p
	}
	if after = after.Evolve(c.Event); after.Name != "" {
		c.projectAfter = &after
	}
}

func (w *Writer) preparePayment() error {
	c := &w.change
	r := c.Record
	id, err := PaymentID(r)
	if err != nil {
		return err
	}
	after := PaymentRow{Payment: domain.Payment{Project: r.Stream.Project, ID: id}, Position: r.Position}
	if r.Sequence > 1 { // else the event opens the stream
		key := idKey(id)
		before, ok, err := w.views.payments.GetUnchanged(key, w.views.payments.Slot(key), uint64(r.Prev))
		if err != nil {
			return err
		}
		if ok {
			c.paymentBefore, after = before, *before
		}
	}
	if after.Payment = after.Payment.Evolve(c.Event); after.Payment.Status == "" {
		return nil
	}
	c.paymentAfter = &after
	if w.StateOnly {
		return nil
	}
	for _, sums := range []*periodsView{w.views.quarters, w.views.days} {
		if err := sums.count(c); err != nil {
			return err
		}
	}
	return w.views.attempts.count(c)
}

// PaymentID is the id of the payment that a record is about. The error is a
// *eventstore.CorruptError.
func PaymentID(r eventstore.Stored) (domain.ID, error) {
	id, ok := domain.ParseID(r.Stream.ID)
	if !ok {
		return id, &eventstore.CorruptError{Position: r.Position, Reason: "the stream's id is not that of a payment"}
	}
	return id, nil
}

// Fold folds the event that was prepared. The DB is locked.
func (w *Writer) Fold() {
	v, c := w.views, &w.change
	if c.paymentAfter != nil {
		v.payments.put(c.paymentBefore, c.paymentAfter)
	}
	if w.ProjectsOnly || w.StateOnly {
		v.projects.fold(c)
		return
	}
	if c.paymentAfter != nil {
		v.pending.add(c.paymentBefore, c.paymentAfter)
	}
	for _, one := range v.ofEvents {
		one.fold(c)
	}
	if len(v.pending) >= w.MaxPending {
		v.apply()
	}
}

// Folded tells a sender of webhooks what the event folded last left to be sent. The DB is
// not locked.
func (w *Writer) Folded() { w.views.deliveries.announce() }

// Changed is the payment that the event folded last is about, before and after it:
// nil where there is none.
func (w *Writer) Changed() (before, after *domain.Payment) {
	if row := w.change.paymentBefore; row != nil {
		before = &row.Payment
	}
	if row := w.change.paymentAfter; row != nil {
		after = &row.Payment
	}
	return before, after
}

// Apply brings the views of payments up to what was folded. The DB is locked.
func (w *Writer) Apply() { w.views.apply() }

// Pending is how many rows Apply will change, or more. The DB is locked.
func (w *Writer) Pending() int { return len(w.views.pending) * len(w.views.ofPayments) }

// Load reads the part that the views keep in memory from a file that reflects
// the log up to the position.
func (w *Writer) Load(ctx context.Context, position eventstore.Position) error {
	for _, one := range w.views.loaded {
		if err := one.load(ctx, position); err != nil {
			return err
		}
	}
	return nil
}
