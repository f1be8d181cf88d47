package projections

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Config says what an engine folds and where it keeps the result.
type Config struct {
	Path  string // of the views' file; its directory must exist
	Store eventstore.Store
	Codec *eventstore.Codec
	LogID domain.ID // of Store's log: another log's file is rebuilt

	// Progress, if set, is told by Open how far a rebuild, or a long catching
	// up, has come: every few thousand events and at the end.
	Progress func(done, total eventstore.Position)
	// FlushEvery is how often the views are written to the file; 0 means a
	// second.
	FlushEvery time.Duration
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

// Engine folds the log into the views and answers reads from them. All its
// methods but Run and Close are safe for concurrent use.
//
// A read answers the context's error, ErrClosed, ErrStopped, or what stopped
// Run: among others a *eventstore.CorruptError, a *DamagedError.
type Engine struct {
	views
	all        []view
	ofPayments []paymentView
	ofEvents   []eventView

	path  string
	store eventstore.Store
	codec *eventstore.Codec
	log   domain.ID
	every time.Duration
	limit int // entries in memory at which a flush is due

	change   change  // room for fold
	settleAt int     // so many payments have changed
	settling []*move // room for settle

	db     *boltfile.File
	update func(func(*bolt.Tx) error) error // db.Update, but where tests make writes fail

	mu      sync.RWMutex // guards the tables in memory and what follows
	last    checkpointAt // the last event folded
	moved   moves        // of the views of payments
	pending int          // entries not yet handed to a flush, or more

	flushMu sync.Mutex    // one flush at a time; guards what follows
	frozen  *checkpointAt // what the frozen layers stand for, nil if there are none
	saved   checkpointAt  // what the file stands for

	full chan struct{} // asks for an early flush

	position atomic.Uint64
	written  atomic.Uint64 // of what the file holds, or less
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

// maxPending bounds what is kept in memory between flushes, some 30 MB.
const maxPending = 1 << 16

func newEngine(c Config) *Engine {
	v := newViews()
	return &Engine{
		views: v, all: v.all(), ofPayments: v.ofPayments(), ofEvents: v.ofEvents(), moved: make(moves), settleAt: movesAtOnce, path: c.Path, store: c.Store, codec: c.Codec, log: c.LogID, every: c.FlushEvery,
		limit: maxPending, full: make(chan struct{}, 1), failed: make(chan struct{}),
	}
}

// Run follows the store until ctx ends and writes the views to the file about
// once a second and at the end, if there is room. It answers nil when ctx
// ended, else what stopped it; reads then answer the same. It is called once.
func (e *Engine) Run(ctx context.Context) error {
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	var flusher sync.WaitGroup
	flusher.Go(func() {
		defer cancel()
		e.flushNowAndThen(following)
	})
	flusher.Go(func() { e.checkFile(following) })
	err := e.store.Follow(following, e.Position(), eventstore.Filter{}, func(r eventstore.Stored) error {
		if err := e.apply(r); err != nil {
			return err
		}
		return e.relieve(following)
	})
	cancel()
	flusher.Wait()

	if failure := e.failure(); failure != nil {
		return failure
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	// On a full disk what is not written stays to be folded again.
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

// Close frees the file. What was not flushed is folded again at the next Open.
// Run must have ended.
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

// failure is what stopped the engine, nil while nothing has.
func (e *Engine) failure() error {
	select {
	case <-e.failed:
		return e.err
	default:
		return nil
	}
}

// Distrust deletes the views' file and stops the engine, since the log is not
// what the views were folded from. The next Open folds them anew.
func (e *Engine) Distrust(reason string) error { return e.damaged(&damage{Reason: reason}) }

// damaged deletes the file and stops the engine when err says that the file
// is damaged; other errors pass.
func (e *Engine) damaged(err error) error {
	var d *damage
	if !errors.As(err, &d) {
		return err
	}
	out := &DamagedError{Path: e.path, Reason: d.Reason}
	if err := os.Remove(e.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		out.Reason += "; deleting it failed, delete it yourself: " + err.Error()
	}
	e.fail(out)
	return out
}

func closed(err error) error {
	if errors.Is(err, boltfile.ErrClosed) {
		return ErrClosed
	}
	return err
}
