package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections/books"
	"payledger/projections/table"
	"payledger/projections/views"
)

// Config says what an engine folds and where it keeps the result.
type Config struct {
	Path  string // of the file; its directory must exist
	Store eventstore.Store
	Codec *eventstore.Codec
	LogID domain.ID // of Store's log: another log's file is rebuilt

	// Progress, if set, is called by Open with how far a rebuild, or a long
	// catching up, has come: every few thousand events and at the end.
	Progress func(done, total eventstore.Position)
	// Changed, if set, is called by Run with each event of a payment that it folds,
	// and with the payment before it (nil if the event made it) and after it. It is
	// not called for what Open folds, and no read waits for it.
	Changed func(e domain.Event, before, after *domain.Payment)
	// FlushEvery is how often the views are written to the file; 0 means a
	// second.
	FlushEvery time.Duration
	// BooksOnly leaves out all views but the list of projects: of the reads only those of the books
	// and of projects answer.
	BooksOnly bool
	// StateOnly leaves out the books, and all views but the payments and the projects: of the reads only
	// EachPayment and those of projects answer. The file is for once and is not synced when it is made.
	StateOnly bool
	// UpTo is the position at which the log ends for Open and the reads; nil: at its end. Such an engine
	// does not Run.
	UpTo *eventstore.Position

	cachedPayments int // 0 means the usual number
}

// Errors of an engine.
var (
	// ErrStopped: Run has ended, so the views no longer follow the log.
	ErrStopped = errors.New("the views no longer follow the event log")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("the views are closed")
)

// DamagedError: the views' file turned out to be damaged while it was in use.
// It has been deleted, and the next Open rebuilds it.
type DamagedError struct {
	Path   string
	Reason string
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("the views' file %s is damaged and was deleted, start again to rebuild it: %s", e.Path, e.Reason)
}

// Engine folds the log into the views and the books, and answers reads from
// them. All its methods but Run and Close are safe for concurrent use.
//
// A read answers the context's error, ErrClosed, ErrStopped, or the error that
// stopped Run: among others a *eventstore.CorruptError, a *DamagedError.
type Engine struct {
	*views.Views
	*books.Books
	viewWriter *views.Writer
	bookWriter *books.Writer

	config Config
	store  eventstore.Store
	codec  *eventstore.Codec
	upTo   eventstore.Position
	limit  int // rows in memory at which a flush is due

	db      *table.DB    // its lock guards the next two fields
	last    checkpointAt // the last event folded
	pending int          // rows not yet sealed, or more

	flushMu sync.Mutex    // one flush at a time; guards the next two fields
	sealed  *checkpointAt // the last event in the sealed rows, nil if there are none
	saved   checkpointAt  // the last event in the file

	full chan struct{} // asks for an early flush

	position atomic.Uint64
	waiting  waiting

	failOnce sync.Once
	failed   chan struct{} // closed when err is set
	err      error
}

// checkpointAt names an event of the log.
type checkpointAt struct {
	position eventstore.Position
	event    domain.ID
}

const (
	maxPending     = 1 << 16 // rows in memory between flushes, some 30 MB
	cachedPayments = 1 << 14 // decoded payments in memory, some 20 MB
)

func newEngine(c Config) *Engine {
	e := &Engine{
		config: c, store: c.Store, codec: c.Codec, upTo: math.MaxUint64, limit: maxPending, db: new(table.DB), full: make(chan struct{}, 1), failed: make(chan struct{}),
	}
	if c.UpTo != nil {
		e.upTo = *c.UpTo
	}
	cached := cachedPayments
	if c.StateOnly { // nothing is read meanwhile
		e.limit, cached = maxPending/2, cachedPayments/16
	}
	e.db.OnError = e.readFailed
	e.Views, e.viewWriter = views.New(e.db, e, cmp.Or(c.cachedPayments, cached))
	e.viewWriter.ProjectsOnly, e.viewWriter.StateOnly = c.BooksOnly, c.StateOnly
	e.Books, e.bookWriter = books.New(e.db, e)
	return e
}

// Run follows the store until ctx ends and writes the views to the file about once a second and at
// the end, if the disk has space. It returns nil when ctx ended, else the error that stopped it;
// reads then return the same. It is called once.
func (e *Engine) Run(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	background.Go(func() {
		defer cancel()
		e.flushEvery(following)
	})
	background.Go(func() { _ = e.checkFile(following) }) // a failure stops the engine
	err := e.store.Follow(following, e.Position(), eventstore.Filter{}, func(r eventstore.Stored) error {
		if err := e.apply(r); err != nil {
			return err
		}
		return e.boundMemory(following)
	})
	cancel()
	background.Wait()

	if failure := e.failure(); failure != nil {
		return failure
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	// On a full disk, what is not written will be folded again.
	if flushErr := e.flush(); err == nil && !diskFull(flushErr) {
		err = flushErr
	}
	if err == nil {
		e.fail(ErrStopped)
		return nil
	}
	e.fail(err)
	return err
}

// Close frees the file. Events that were not flushed are folded again at the
// next Open. Run must have ended.
func (e *Engine) Close() error {
	e.fail(ErrClosed)
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	return e.db.Close()
}

// fail stops the engine: reads that wait, and Run, answer err. The first error
// counts.
func (e *Engine) fail(err error) {
	e.failOnce.Do(func() {
		e.err = err
		close(e.failed)
	})
}

// failure is the error that stopped the engine, nil while it works.
func (e *Engine) failure() error {
	select {
	case <-e.failed:
		return e.err
	default:
		return nil
	}
}

// Distrust deletes the views' file and stops the engine, since the log is not the one that the
// views were folded from. The next Open rebuilds them.
func (e *Engine) Distrust(reason string) error { return e.readFailed(table.Damage("%s", reason)) }

// readFailed deletes the file and stops the engine when err says that the file
// is damaged.
func (e *Engine) readFailed(err error) error {
	if errors.Is(err, table.ErrClosed) {
		return ErrClosed
	}
	d, ok := errors.AsType[*table.DamagedError](err)
	if !ok {
		return err
	}
	out := &DamagedError{Path: e.config.Path, Reason: d.Reason}
	if err := os.Remove(e.config.Path); err != nil && !errors.Is(err, os.ErrNotExist) {
		out.Reason += "; deleting it failed, delete it yourself: " + err.Error()
	}
	e.fail(out)
	return out
}

// Config is what Open was given.
func (e *Engine) Config() Config { return e.config }

// Tables lists the tables of the views' file.
func (e *Engine) Tables() []string { return e.db.Names() }

// Snapshot flushes everything the store held when Snapshot was called and lets
// fn read the file as it is then; on a full disk, as it was flushed last. An error of the file's structure is a
// *table.DamagedError.
func (e *Engine) Snapshot(ctx context.Context, fn func(*bolt.Tx) error) error {
	if _, err := e.Fresh(ctx, eventstore.Filter{}); err != nil {
		return err
	}
	if err := e.flush(); err != nil && !diskFull(err) {
		return err
	}
	if err := e.db.Check(ctx.Err); err != nil {
		return err
	}
	err := e.db.View(fn)
	if errors.Is(err, table.ErrClosed) {
		return ErrClosed
	}
	return err
}
