package projections

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/table"
	"payledger/projections/views"
)

// Checkpoint says what the file holds: the note of its tables, as JSON.
type Checkpoint struct {
	Format   int                 `json:"format"`
	Log      domain.ID           `json:"log"`      // the id that the event log got when it was made
	Position eventstore.Position `json:"position"` // of the last event folded
	Event    domain.ID           `json:"event"`    // its id
}

// ReadCheckpoint reads a file's checkpoint. Of a file of another format it reads only the format.
func ReadCheckpoint(tx *bolt.Tx) (c Checkpoint, err error) {
	note, err := table.Note(tx)
	if err != nil {
		return c, err
	}
	err = json.Unmarshal(note, &c)
	if c.Format > 0 && c.Format != views.Format { // the first member; the others may be of any type
		return Checkpoint{Format: c.Format}, nil
	}
	if err != nil {
		return c, table.Damage("checkpoint: %v", err)
	}
	return c, nil
}

// note is the checkpoint of a file that reflects the log up to the event.
func (e *Engine) note(at checkpointAt) []byte {
	note, err := json.Marshal(Checkpoint{Format: views.Format, Log: e.config.LogID, Position: at.position, Event: at.event})
	if err != nil {
		panic(err) // numbers and ids can be written as JSON
	}
	return note
}

// load takes the views from an opened file. The error is a *table.DamagedError
// when the file has to be rebuilt.
func (e *Engine) load(ctx context.Context) error {
	var c Checkpoint
	err := e.db.View(func(tx *bolt.Tx) (err error) {
		if c, err = ReadCheckpoint(tx); err != nil {
			return err
		}
		switch {
		case c.Format != views.Format:
			return table.Damage("of format %d", c.Format)
		case c.Log != e.config.LogID:
			return table.Damage("of another log")
		}
		for _, name := range e.db.Names() {
			if tx.Bucket([]byte(name)) == nil {
				return table.Damage("table %s is missing", name)
			}
		}
		return nil
	})
	if err == nil {
		err = e.viewWriter.Load(ctx, c.Position)
	}
	if err == nil {
		err = e.bookWriter.Load(ctx, c.Position)
	}
	if err == nil {
		err = e.checkEvent(ctx, c)
	}
	if err != nil {
		return err
	}
	e.saved = checkpointAt{c.Position, c.Event}
	e.last = e.saved
	e.db.Lock()
	e.db.Drop(uint64(c.Position)) // nothing is sealed, and the file holds all up to there
	e.db.Unlock()
	e.position.Store(uint64(c.Position))
	return nil
}

// checkEvent makes sure that the log holds the event of the checkpoint: a log
// restored from a backup may be shorter, or have continued differently.
func (e *Engine) checkEvent(ctx context.Context, c Checkpoint) error {
	if c.Position == 0 {
		return nil
	}
	last, err := e.store.Last(ctx)
	if err != nil {
		return err
	}
	if c.Position > last {
		return table.Damage("ahead of the log")
	}
	r, err := e.recordAt(ctx, c.Position)
	if err == nil && r.Commit != c.Event {
		err = table.Damage("of another history of the log")
	}
	return err
}

// checkFile checks every page of the file while it is used, and works no more
// than half of the time. A damaged file is deleted, which stops the engine.
func (e *Engine) checkFile(ctx context.Context) error {
	return e.readFailed(e.db.Check(halfTime(ctx)))
}

// halfTime lets work of a few milliseconds be followed by as much rest.
func halfTime(ctx context.Context) func() error {
	pages := 0
	return func() error {
		if pages++; pages%pagesAtOnce != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pagesRest):
			return nil
		}
	}
}

// Reading a page that the system has in memory takes one or two microseconds.
const (
	pagesAtOnce = 1 << 10
	pagesRest   = 2 * time.Millisecond
)
