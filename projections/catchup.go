package projections

import (
	"context"
	"math"

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
// are decoded ahead, the views of payments are told once of all events of a
// payment between two flushes, and a flush is written while the next events
// are folded.
type backlog struct {
	e        *Engine
	flushing chan error // of the flush under way, nil while there is none
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
	b := backlog{e: e}
	e.settleAt = math.MaxInt
	defer func() {
		e.settleAt, e.moved, e.settling = movesAtOnce, make(moves), nil
		if flushErr := b.wait(); err == nil {
			err = flushErr
		}
	}()
	for d, err := range eventstore.Ahead(ctx, e.store.Scan(ctx, e.Position(), eventstore.Filter{}), e.decode) {
		if err != nil {
			return err
		}
		at := d.record.Position
		if err := e.fold(d); err != nil {
			return err
		}
		if e.pending >= e.limit {
			if err := b.flush(); err != nil {
				return err
			}
		}
		if at >= reported+reportEach {
			reported, always = at, true
			progress(at, max(total, at))
		}
	}
	e.settled()
	if e.Position() < total {
		return &eventstore.CorruptError{Position: e.Position() + 1, Reason: "missing: the log ends before its last position"}
	}
	if always {
		progress(e.Position(), e.Position())
	}
	return nil
}

// flush begins to write what was folded, once the flush before is through.
func (b *backlog) flush() error {
	if err := b.wait(); err != nil {
		return err
	}
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
