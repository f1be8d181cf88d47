package collect

import (
	"context"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"payledger/domain"
)

// task is a payment in memory.
type task struct {
	id   domain.ID
	busy chan struct{} // holds one token while the payment is worked on

	// Guarded by tasks.mu.
	due    time.Time
	queued bool // it is in tasks.order, which due must not change in
	users  int  // goroutines that have the lock or wait for it

	handOff *domain.HandOff // of the attempt of this number; nil: not known
	attempt int

	tries     int
	lastError string

	all *tasks

	// Those that follow belong to the holder of the task.
	failures int       // calls in a row whose fate is unknown
	polled   time.Time // when the provider was asked about the payment last
	alarmed  bool
	unwanted int // the number of an attempt that is to be cancelled: its customer cannot be sent on
}

// tasks are the payments in memory, ordered by when they are due.
type tasks struct {
	now   func() time.Time
	limit int           // most payments in memory
	woken chan struct{} // holds one token when something became due earlier

	mu    sync.Mutex
	byID  map[domain.ID]*task
	order *btree.BTreeG[*task]
}

func newTasks(now func() time.Time) *tasks {
	soonest := func(a, b *task) bool {
		return a.due.Before(b.due) || a.due.Equal(b.due) && a.id.Compare(b.id) < 0
	}
	return &tasks{
		now: now, limit: maxTasks, woken: make(chan struct{}, 1), byID: make(map[domain.ID]*task),
		order: btree.NewBTreeGOptions(soonest, btree.Options{NoLocks: true}),
	}
}

func (ts *tasks) wake() {
	select {
	case ts.woken <- struct{}{}:
	default:
	}
}

// has reports whether a payment is in memory.
func (ts *tasks) has(id domain.ID) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return ts.byID[id] != nil
}

// dueNow makes a payment due now. One that does not fit is found in the view later.
func (ts *tasks) dueNow(id domain.ID) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.byID[id] != nil || len(ts.byID) < ts.limit {
		ts.at(ts.get(id), ts.now())
	}
}

func (ts *tasks) size() int {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	return len(ts.byID)
}

// get finds or makes the task of a payment; ts.mu is held.
func (ts *tasks) get(id domain.ID) *task {
	t := ts.byID[id]
	if t == nil {
		t = &task{id: id, busy: make(chan struct{}, 1), all: ts}
		ts.byID[id] = t
	}
	return t
}

// at makes a task due; ts.mu is held.
func (ts *tasks) at(t *task, due time.Time) {
	if t.queued {
		ts.order.Delete(t)
	}
	t.due, t.queued = due, true
	ts.order.Set(t)
	if first, _ := ts.order.Min(); first == t {
		ts.wake()
	}
}

// lookEvery bounds a sleep, because the clock on the wall may be set meanwhile.
const lookEvery = 15 * time.Second

// due takes what is due now out of the order, at most maxSteps payments, and says how
// long nothing else is due, at most lookEvery.
func (ts *tasks) due() (ids []domain.ID, pause time.Duration) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for now := ts.now(); ts.order.Len() > 0; {
		first, _ := ts.order.Min()
		if pause = first.due.Sub(now); pause > 0 || len(ids) == maxSteps {
			return ids, min(pause, lookEvery)
		}
		ts.order.PopMin()
		first.queued = false
		ids = append(ids, first.id)
	}
	return ids, lookEvery
}

// tryLock locks a payment unless it is locked.
func (ts *tasks) tryLock(id domain.ID) (*task, bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.get(id)
	select {
	case t.busy <- struct{}{}:
		t.users++
		return t, true
	default:
		return nil, false
	}
}

// lock waits for the lock of the payment. The error is the context's.
func (ts *tasks) lock(ctx context.Context, id domain.ID) (*task, error) {
	ts.mu.Lock()
	t := ts.get(id)
	t.users++
	ts.mu.Unlock()
	select {
	case t.busy <- struct{}{}:
		return t, nil
	case <-ctx.Done():
		ts.mu.Lock()
		defer ts.mu.Unlock()
		t.users--
		ts.forget(t)
		return nil, ctx.Err()
	}
}

func (ts *tasks) unlock(t *task) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t.users--
	<-t.busy
	ts.forget(t)
}

// forget drops a task that is not needed any more. The caller holds ts.mu.
func (ts *tasks) forget(t *task) {
	if t.users == 0 && !t.queued && ts.byID[t.id] == t {
		delete(ts.byID, t.id)
	}
}

// rest is how long the provider may not be asked about the payment. The caller holds
// the task.
func (t *task) rest() time.Duration {
	if rest := MinInterval - t.all.now().Sub(t.polled); rest > 0 && rest <= MinInterval {
		return rest
	}
	return 0 // also when the clock was set back
}

// next makes the task due after a pause, unless it was woken meanwhile.
func (t *task) next(pause time.Duration) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if due := t.all.now().Add(pause); !t.queued || t.due.After(due) {
		t.all.at(t, due)
	}
}

// keep remembers where the customer of an attempt was sent.
func (t *task) keep(attempt int, h *domain.HandOff) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	t.attempt, t.handOff = attempt, h
}

// shown is the hand-off of the attempt, if it is in memory and still good.
func (ts *tasks) shown(id domain.ID, attempt int) *domain.HandOff {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.byID[id]
	if t == nil || t.handOff == nil || t.attempt != attempt || !t.handOff.ExpiresAt.IsZero() && !ts.now().Before(t.handOff.ExpiresAt) {
		return nil
	}
	return t.handOff
}
