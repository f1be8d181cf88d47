package projections

import (
	"context"
	"maps"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// decoded is a record with what can be made of it by itself.
type decoded struct {
	record eventstore.Stored
	event  domain.Event
	leaf   tlog.Hash
	err    error
}

// decode trusts the stored bytes alone.
func (e *Engine) decode(r eventstore.Stored) decoded {
	event, err := e.codec.Decode(r)
	return decoded{r, event, translog.Leaf(r.Body), err}
}

// backlog is how Open folds many events at once, while nobody reads: records
// are decoded ahead, views that follow the state of a payment are told once of
// all its events between two flushes, and a flush is written while the next
// events are folded.
type backlog struct {
	e        *Engine
	payments []view // of e, that are told of payments
	others   []view // of e, that are told of events
	rows     map[domain.ID]*payment
	flushing chan error // of the flush under way, nil while there is none
}

// payment is one that has changed since the last flush.
type payment struct {
	before *paymentRow // nil if it did not exist
	after  paymentRow
}

// Progress is told every reportEach events, and of a mere catching up only
// when it takes that many.
const reportEach = 8192

// catchUp folds the log from where the views stand up to its end. What it
// folded last may not be in the file yet.
func (e *Engine) catchUp(ctx context.Context, progress func(done, total eventstore.Position), always bool) (err error) {
	total, err := e.store.Last(ctx)
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(_, _ eventstore.Position) {}
	}
	reported := e.Position()
	b := backlog{e: e, payments: e.ofPayments(), others: e.others(), rows: make(map[domain.ID]*payment)}
	defer func() {
		if flushErr := b.wait(); err == nil {
			err = flushErr
		}
	}()
	for d, err := range eventstore.Ahead(ctx, e.store.Scan(ctx, e.Position(), eventstore.Filter{}), e.decode) {
		if err != nil {
			return err
		}
		at := d.record.Position
		if err := b.fold(d); err != nil {
			return err
		}
		if b.pending() >= e.limit {
			if err := b.flush(); err != nil {
				return err
			}
		}
		if at >= reported+reportEach {
			reported, always = at, true
			progress(at, max(total, at))
		}
	}
	b.settle()
	if e.Position() < total {
		return &eventstore.CorruptError{Position: e.Position() + 1, Reason: "missing: the log ends before its last position"}
	}
	if always {
		progress(e.Position(), e.Position())
	}
	return nil
}

// fold is apply for an event of the backlog.
func (b *backlog) fold(d decoded) error {
	if done, err := b.e.follows(d.record.Position); done || err != nil {
		return err
	}
	c, err := b.e.change(d)
	if err != nil {
		return err
	}
	if d.record.Stream.Kind == eventstore.KindPayment {
		if c.days, err = b.evolve(d); err != nil {
			return err
		}
	}
	b.e.tell(b.others, c)
	return nil
}

// evolve follows a payment, and answers what its days add up to.
func (b *backlog) evolve(d decoded) ([]dayEntry, error) {
	id, err := paymentID(d.record)
	if err != nil {
		return nil, err
	}
	p := b.rows[id]
	if p == nil {
		p = new(payment)
		if p.before, p.after, err = b.e.row(d.record, id); err != nil {
			return nil, err
		}
	}
	was := p.after.Payment.Status
	if p.after.Payment = p.after.Payment.Evolve(d.event); p.after.Payment.Status == "" {
		delete(b.rows, id)
		return nil, nil
	}
	b.rows[id] = p
	return b.e.countDays(d.record, d.event, was, &p.after.Payment)
}

// pending is how many entries the next flush will have, or more.
func (b *backlog) pending() int {
	n := len(b.rows) * len(b.payments)
	for _, v := range b.others {
		n += v.pending()
	}
	return n
}

// settle tells the views of payments what has become of them.
func (b *backlog) settle() {
	ids := slices.SortedFunc(maps.Keys(b.rows), domain.ID.Compare)
	e := b.e
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, id := range ids {
		p := b.rows[id]
		for _, v := range b.payments {
			v.fold(change{before: p.before, after: &p.after})
		}
		p.before = nil // is not kept longer than the views keep after
	}
	clear(b.rows)
	e.pending = 0
	for _, v := range e.all {
		e.pending += v.pending()
	}
}

// flush begins to write what was folded, once the flush before is through.
func (b *backlog) flush() error {
	if err := b.wait(); err != nil {
		return err
	}
	b.settle()
	b.e.flushMu.Lock()
	b.e.freeze()
	b.e.flushMu.Unlock()
	b.flushing = make(chan error, 1)
	go func() { b.flushing <- b.e.flush() }()
	return nil
}

// wait answers how the flush under way ended.
func (b *backlog) wait() error {
	if b.flushing == nil {
		return nil
	}
	err := <-b.flushing
	b.flushing = nil
	return err
}
