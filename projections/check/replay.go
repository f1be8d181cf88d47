package check

import (
	"context"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/projections/table"
	"payledger/projections/views"
)

// Replayed are the projects and payments that a log leads to at some position. Payments are in a
// temporary file, which Close deletes.
type Replayed struct {
	position eventstore.Position
	projects map[string]projects.Project
	db       table.DB
	payments *table.Table[*views.PaymentRow]
	dir      string
}

// Replay folds the log from its first event up to the position, or to its end when that comes
// first: only the state of projects and payments, no views. Payments that have not changed for a
// while are written to a file in the system's directory for temporary files. progress may be nil.
func Replay(
	ctx context.Context, l eventstore.Ledger, upTo eventstore.Position, progress func(done, total eventstore.Position),
) (*Replayed, error) {
	return replay(ctx, l, upTo, progress, maxRows)
}

// maxRows is how many payments are kept in memory before they are written, some
// 20 MB; while they are written there may be as many again.
const maxRows = 1 << 15

func replay(
	ctx context.Context, l eventstore.Ledger, upTo eventstore.Position, progress func(done, total eventstore.Position), rows int,
) (_ *Replayed, err error) {
	dir, err := os.MkdirTemp("", "payledger-replay-")
	if err != nil {
		return nil, err
	}
	r := &Replayed{projects: make(map[string]projects.Project), dir: dir}
	r.payments = views.NewPayments(&r.db)
	if err := r.db.Open(filepath.Join(dir, "payments.db")); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	r.db.DeferSync()
	f := refold{Replayed: r, codec: l.Codec, limit: rows}
	if err = r.db.Create(nil); err == nil {
		err = f.log(ctx, prefix{l.Store, upTo}, progress)
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Position is that of the last event that was folded.
func (r *Replayed) Position() eventstore.Position { return r.position }

// Projects lists every project by id.
func (r *Replayed) Projects() []projects.Project {
	return slices.SortedFunc(maps.Values(r.projects), func(a, b projects.Project) int { return strings.Compare(a.ID, b.ID) })
}

// EachPayment calls fn for every payment, by id.
func (r *Replayed) EachPayment(ctx context.Context, fn func(domain.Payment) error) error {
	return r.payments.Each(ctx, table.Range{}, math.MaxInt, func(_ string, row *views.PaymentRow) error { return fn(row.Payment) })
}

// Close deletes the file.
func (r *Replayed) Close() error { return errors.Join(r.db.Close(), os.RemoveAll(r.dir)) }

// refold is a replay under way. The newest rows are those of the table's
// memory, where sealed ones are being written while the next are folded.
type refold struct {
	*Replayed
	codec   *eventstore.Codec
	limit   int
	pending int        // rows not yet sealed
	written chan error // nil: nothing is being written
}

// replayedEvent is the part of a record that a replay needs. It does not refer
// to the record's bytes, so that these can be freed.
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
		e.payment, e.err = views.PaymentID(r)
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
		if writeErr := f.wait(); err == nil {
			err = writeErr
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
	return f.flush()
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
		return f.foldPayment(e)
	}
	return nil
}

func (f *refold) foldPayment(e replayedEvent) (err error) {
	key := string(e.payment[:])
	after := views.PaymentRow{Payment: domain.Payment{Project: e.stream.Project, ID: e.payment}, Position: e.at}
	exists := false
	if !e.opens {
		var before *views.PaymentRow
		if before, exists, err = f.payments.Get(key); err != nil {
			return err
		}
		if exists {
			after = *before
		}
	}
	if after.Payment = after.Payment.Evolve(e.event); after.Payment.Status == "" {
		return nil
	}
	f.db.Lock()
	if exists {
		f.payments.Replace(key, &after)
	} else {
		f.payments.Insert(key, &after)
	}
	f.pending = f.db.Pending()
	f.db.Unlock()
	if f.pending >= f.limit {
		return f.flush()
	}
	return nil
}

// flush begins to write the rows, once those before are written.
func (f *refold) flush() error {
	if err := f.wait(); err != nil {
		return err
	}
	f.db.Lock()
	f.db.Seal()
	f.db.Unlock()
	f.written = make(chan error, 1)
	go func() { f.written <- f.db.Write(nil) }()
	return nil
}

// wait waits for the rows that are being written.
func (f *refold) wait() error {
	if f.written == nil {
		return nil
	}
	err := <-f.written
	f.written = nil
	f.db.Lock()
	f.db.Drop(uint64(f.position))
	f.db.Unlock()
	return err
}
