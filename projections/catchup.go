package projections

import (
	"context"
	"math"
	"sync"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections/views"
)

// reportEach is after how many events Progress is called. A catching up of fewer
// events does not call it.
const reportEach = 8192

// catchUp folds the log from the position of the views up to its end, or to Config.UpTo, while there
// are no reads: records are decoded ahead, the views of payments are updated once for
// all events of a payment between two flushes, and a flush is written while the
// next events are folded. The events folded last may not be in the file yet.
func (e *Engine) catchUp(ctx context.Context, progress func(done, total eventstore.Position), always bool) (err error) {
	total, err := e.end(ctx, eventstore.Filter{})
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(_, _ eventstore.Position) {}
	}
	reported := e.Position()
	wait := func() error { return nil } // for the flush under way
	e.viewWriter.MaxPending = math.MaxInt
	defer func() {
		e.viewWriter.MaxPending = views.MaxPending
		if flushErr := wait(); err == nil {
			err = flushErr
		}
	}()
	for d, err := range eventstore.Ahead(ctx, e.store.Scan(ctx, e.Position(), eventstore.Filter{}), e.decode) {
		if e.Position() == e.upTo {
			break
		}
		if err != nil {
			return err
		}
		at := d.Record.Position
		if err := e.fold(d); err != nil {
			return err
		}
		if e.pending >= e.limit {
			if err := wait(); err != nil {
				return err
			}
			wait = e.flushBehind()
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
	d := decoded{views.Decoded{Record: r, Event: event}, err}
	if e.config.StateOnly {
		d.Record.Body, d.Record.Details, d.Record.Event = nil, nil, nil // frees them early
	} else {
		d.Leaf = translog.LeafOf(r)
	}
	return d
}

// flushBehind begins to write what was folded. wait returns how that ended.
func (e *Engine) flushBehind() (wait func() error) {
	e.flushMu.Lock()
	e.seal()
	e.flushMu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- e.flush() }()
	return sync.OnceValue(func() error { return <-ended })
}
