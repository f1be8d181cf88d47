package projections

import (
	"fmt"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections/views"
)

// apply folds one record into every view. Only one goroutine at a time calls it.
func (e *Engine) apply(r eventstore.Stored) error {
	event, err := e.codec.Event(r)
	at := e.Position()
	if err := e.fold(decoded{views.Decoded{Record: r, Event: event, Leaf: translog.LeafOf(r)}, err}); err != nil {
		return err
	}
	if e.config.Changed != nil && r.Position > at {
		if before, after := e.viewWriter.Changed(); after != nil {
			e.config.Changed(event, before, after)
		}
	}
	return nil
}

// decoded is a decoded record, or the error of decoding it.
type decoded struct {
	views.Decoded
	err error
}

func (e *Engine) fold(d decoded) error {
	r := d.Record
	switch at := e.Position(); {
	case r.Position <= at:
		return nil // was folded before
	case r.Position != at+1:
		return &eventstore.CorruptError{Position: at + 1, Reason: fmt.Sprintf("missing: position %d follows %d", r.Position, at)}
	case d.err != nil:
		return d.err
	}
	if err := e.viewWriter.Prepare(d.Decoded); err != nil {
		return err
	}
	e.db.Lock()
	e.viewWriter.Fold()
	if e.config.StateOnly {
		e.pending++ // one row at most
	} else {
		e.bookWriter.Fold(r, d.Event)
		e.pending = e.db.Pending() + e.viewWriter.Pending()
	}
	e.last = checkpointAt{r.Position, r.Commit}
	e.db.Unlock()
	e.viewWriter.Folded()
	e.advance(r.Position)
	return nil
}
