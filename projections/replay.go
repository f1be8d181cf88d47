package projections

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Replayed are the projects and payments that a log leads to at some position.
// Payments lie in a file of their own that goes with Close.
type Replayed struct {
	position eventstore.Position
	projects map[string]domain.Project
	payments table[*paymentRow] // tells the form of the file's rows
	db       *boltfile.File
	dir      string
}

// Replay folds the log from its first event up to the position, or to its end
// when that comes first: the state of projects and payments alone, no views.
// Payments that have not changed for a while are laid down in the system's
// directory for temporary files. progress may be nil.
func Replay(
	ctx context.Context, l eventstore.Ledger, upTo eventstore.Position, progress func(done, total eventstore.Position),
) (*Replayed, error) {
	return replay(ctx, l, upTo, progress, replayedRows)
}

// replayedRows is how many payments are kept in memory before they are laid
// down, some 20 MB; there may be twice as many.
const replayedRows = 1 << 15

func replay(
	ctx context.Context, l eventstore.Ledger, upTo eventstore.Position, progress func(done, total eventstore.Position), rows int,
) (_ *Replayed, err error) {
	dir, err := os.MkdirTemp("", "payledger-replay-")
	if err != nil {
		return nil, err
	}
	r := &Replayed{projects: make(map[string]domain.Project), payments: newPaymentsTable(), dir: dir}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if r.db, err = openFile(filepath.Join(dir, "payments.db")); err != nil {
		return nil, err
	}
	r.db.DB().NoSync, r.db.DB().NoGrowSync = true, true
	if err := r.db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte(r.payments.name))
		return err
	}); err != nil {
		return nil, err
	}
	f := refold{Replayed: r, codec: l.Codec, rows: make(map[domain.ID]*paymentRow), limit: rows}
	return r, f.log(ctx, prefix{l.Store, upTo}, progress)
}

// Position is that of the last event that was folded.
func (r *Replayed) Position() eventstore.Position { return r.position }

// Projects lists every project by id.
func (r *Replayed) Projects() []domain.Project {
	return slices.SortedFunc(maps.Values(r.projects), func(a, b domain.Project) int { return strings.Compare(a.ID, b.ID) })
}

// EachPayment calls fn for every payment, by id.
func (r *Replayed) EachPayment(ctx context.Context, fn func(domain.Payment) error) error {
	return r.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte(r.payments.name)).ForEach(func(key, raw []byte) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			row, err := r.payments.open(key, raw)
			if err != nil {
				return err
			}
			return fn(row.Payment)
		})
	})
}

// Close deletes the file.
func (r *Replayed) Close() error {
	var err error
	if r.db != nil {
		err = r.db.Close()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// refold is a replay under way. A payment is in rows if it has changed since
// these were laid down last, else in resting while that is being written, else
// in the file.
type refold struct {
	*Replayed
	codec   *eventstore.Codec
	rows    map[domain.ID]*paymentRow
	resting map[domain.ID]*paymentRow // only read
	written chan error                // nil: nothing is being written
	limit   int
}

// replayedEvent is what a replay wants of a record. It keeps no part of it, so
// that the bytes can go.
type replayedEvent struct {
	at      eventstore.Position
	stream  eventstore.Stream
	opens   bool      // its stream
	payment domain.ID // zero for another kind
	event   domain.Event
	err     error
}

func (f *refold) decode(r eventstore.Stored) replayedEvent {
	e := replayedEvent{at: r.Position, stream: r.Stream, opens: r.Sequence == 1}
	if e.event, e.err = f.codec.Decode(r); e.err == nil && r.Stream.Kind == eventstore.KindPayment {
		e.payment, e.err = paymentID(r)
	}
	return e
}

func (f *refold) log(ctx context.Context, s eventstore.Store, progress func(done, total eventstore.Position)) (err error) {
	total, err := s.Last(ctx)
	if err != nil {
		return err
	}
	if progress == nil {
		progress = func(_, _ eventstore.Position) {}
	}
	defer func() {
		if settled := f.settle(); err == nil {
			err = settled
		}
	}()
	for e, err := range eventstore.Ahead(ctx, s.Scan(ctx, 0, eventstore.Filter{}), f.decode) {
		if err == nil {
			err = e.err
		}
		if err == nil && e.at != f.position+1 {
			err = &eventstore.CorruptError{Position: f.position + 1, Reason: "missing: another position follows the one before it"}
		}
		if err == nil {
			err = f.fold(e)
		}
		if err != nil {
			return err
		}
		if f.position = e.at; f.position%reportEach == 0 {
			progress(f.position, max(total, f.position))
		}
	}
	if f.position < total {
		return &eventstore.CorruptError{Position: f.position + 1, Reason: "missing: the log ends before its last position"}
	}
	progress(f.position, f.position)
	return f.rest()
}

func (f *refold) fold(e replayedEvent) error {
	switch e.stream.Kind {
	case eventstore.KindProject:
		p, ok := f.projects[e.stream.ID]
		if !ok {
			p.ID = e.stream.ID
		}
		if p = p.Evolve(e.event); p.Name != "" {
			f.projects[p.ID] = p
		}
	case eventstore.KindPayment:
		row, err := f.row(e)
		if err != nil {
			return err
		}
		if row.Payment = row.Payment.Evolve(e.event); row.Payment.Status == "" {
			delete(f.rows, e.payment)
		}
		if len(f.rows) >= f.limit {
			return f.rest()
		}
	}
	return nil
}

// row is where the event's payment stands. It is in rows.
func (f *refold) row(e replayedEvent) (row *paymentRow, err error) {
	id := e.payment
	if row := f.rows[id]; row != nil {
		return row, nil
	}
	if before := f.resting[id]; before != nil {
		again := *before
		row = &again
	} else if !e.opens {
		err = f.db.View(func(tx *bolt.Tx) error {
			row, _, err = f.payments.fetch(tx, string(id[:]))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if row == nil {
		row = &paymentRow{Payment: domain.Payment{Project: e.stream.Project, ID: id}, Position: e.at}
	}
	f.rows[id] = row
	return row, nil
}

// rest begins to lay down the rows, once those before are written.
func (f *refold) rest() error {
	if err := f.settle(); err != nil {
		return err
	}
	rows, written := f.rows, make(chan error, 1)
	f.resting, f.written, f.rows = rows, written, make(map[domain.ID]*paymentRow, len(rows))
	go func() { written <- f.write(rows) }()
	return nil
}

// settle waits for what is being written.
func (f *refold) settle() error {
	if f.written == nil {
		return nil
	}
	err := <-f.written
	f.resting, f.written = nil, nil
	return err
}

func (f *refold) write(rows map[domain.ID]*paymentRow) error {
	ids := slices.SortedFunc(maps.Keys(rows), domain.ID.Compare)
	return f.db.Update(func(tx *bolt.Tx) error {
		t := newPaymentsTable()
		for _, id := range ids {
			t.insert(string(id[:]), rows[id])
		}
		t.freeze()
		return t.write(tx)
	})
}
