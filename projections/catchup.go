package projections

import (
	"context"
	"math"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections/views"
)

// reportEach is after how many events Progress is called. A catching up of fewer
// events does not call it.
const reportEach = 8192

// catchUp folds the log from the position of the views up to its end, while there
// are no reads: records are decoded ahead, the views of payments are updated once for
// all events of a payment between two flushes, and a flush is written while the
// next events are folded. The events folded last may not be in the file yet.
func (e *Engine) catchUp(ctx context.Context, progress func(done, total eventstore.Position), always bool) (err error) {
	total, err := e.store.Last(ctx)
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(_, _ eventstore.Position) {}
	}
	reported := e.Position()
	b := background{e: e}
	e.viewWriter.MaxPending = math.MaxInt
	defer func() {
		e.viewWriter.MaxPending = views.MaxPending
		if flushErr := b.wait(); err == nil {
			err = flushErr
		}
	}()
	for d, err := range eventstore.Ahead(ctx, e.store.Scan(ctx, e.Position(), eventstore.Filter{}), e.decode) {
		if err != nil {
			return err
		}
		at := d.Record.Position
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
	e.db.Lock()
	e.viewWriter.Apply()
	e.db.Unlock()
	if e.Position() < total {
		return &eventstore.CorruptError{Position: e.Position() + 1, Reason: "missing: the log ends before its last position"}
	}
	if always {
		progress(e.Position(), e.Position())
	}
	return nil
}

// decode decodes the stored bytes, not the event in memory.
func (e *Engine) decode(r eventstore.Stored) decoded {
	event, err := e.codec.Decode(r)
	return decoded{views.Decoded{Record: r, Event: event, Leaf: translog.LeafOf(r)}, err}
}

// background is a flush that is written while events are folded.
type background struct {
	e     *Engine
	ended chan error // nil while there is none
}

// flush begins to write what was folded, once the flush before has ended.
func (b *background) flush() error {
	if err := b.wait(); err != nil {
		return err
	}
	b.e.flushMu.Lock()
	b.e.seal()
	b.e.flushMu.Unlock()
	b.ended = make(chan error, 1)
	go func() { b.ended <- b.e.flush() }()
	return nil
}

// wait returns how the flush ended.
func (b *background) wait() error {
	if b.ended == nil {
		return nil
	}
	err := <-b.ended
	b.ended = nil
	return err
}
