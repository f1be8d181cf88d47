package bolt

import (
	"runtime"
	"sync"
	"time"

	"payledger/eventstore"
)

const (
	maxGroup   = 1024 // commits of either sort in one transaction
	maxWaiting = 4096 // commits of either sort waiting for their group
	maxPatient = 256  // patient commits that make a group worth its sync

	// Patient commits are kept back for twice the time that the last
	// transaction took, within these bounds: a writer that was just answered
	// comes back by then, and they go with it.
	leastPatience = time.Millisecond
	mostPatience  = 20 * time.Millisecond

	// A group waits until as many commits are there as were answered last, but
	// no longer than half the time that the last transaction took, nor than
	// this. It looks again that often.
	mostRefill = 5 * time.Millisecond
	looks      = 4

	// It does not wait for so few: where payments come one by one, others come
	// than those who were answered, and a sleep is a millisecond at least.
	fewAnswered = 8
)

// queue holds the commits that wait for the committer.
type queue struct {
	mu      sync.Mutex
	filled  *sync.Cond
	waiting []*pending
	closed  bool

	answered int // how many of the last group were not patient

	patient  []*pending
	patience time.Duration
	timer    *time.Timer // runs while there are patient ones
	overdue  bool        // the patience is over

	watch

	spare sync.Pool // of *pending
}

func newQueue() *queue {
	q := &queue{patience: leastPatience}
	q.filled = sync.NewCond(&q.mu)
	q.spare.New = func() any { return newPending() }
	return q
}

// addAll adds those without an error, so that as many as possible leave
// together, and notes the errors of others.
func (q *queue) addAll(all []*pending, done []eventstore.Appended) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, p := range all {
		if done[i].Err == nil {
			done[i].Err = q.put(p)
		}
	}
	if q.ready() {
		q.filled.Signal()
	}
}

func (q *queue) put(p *pending) error {
	to := &q.waiting
	if p.commit.Patient {
		to = &q.patient
	}
	switch {
	case q.closed:
		return eventstore.ErrClosed
	case len(*to) >= maxWaiting:
		return eventstore.ErrBusy
	}
	*to = append(*to, p)
	if q.slow {
		p.delay()
	}
	if p.commit.Patient && len(q.patient) == 1 {
		q.wind()
	}
	return nil
}

// ready reports whether a group should leave.
func (q *queue) ready() bool {
	return len(q.waiting) > 0 || q.overdue || len(q.patient) >= maxPatient || q.closed
}

// wind sets the time at which the patient commits leave by themselves.
func (q *queue) wind() {
	if q.timer == nil {
		q.timer = time.AfterFunc(q.patience, q.ring)
		return
	}
	q.timer.Reset(q.patience)
}

func (q *queue) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.patient) > 0 {
		q.overdue = true
		q.filled.Signal()
	}
}

// take waits for commits and answers a group of them, or nil when the queue
// is closed and empty. took is how long the group before was under way.
func (q *queue) take(took time.Duration) []*pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.patience = min(max(2*took, leastPatience), mostPatience)
	for !q.ready() {
		q.filled.Wait()
	}
	q.refill(min(took/2, mostRefill))
	q.answered = min(len(q.waiting), maxGroup)
	group := append(cut(&q.waiting), cut(&q.patient)...)
	if q.overdue = len(q.patient) > 0; !q.overdue && q.timer != nil {
		q.timer.Stop()
	}
	q.begin(group, q.delay)
	return group
}

// refill lets writers that were just answered come back: a group that leaves
// without them costs a transaction and a sync of its own.
func (q *queue) refill(atMost time.Duration) {
	pause := func(d time.Duration) {
		q.mu.Unlock()
		defer q.mu.Lock()
		if d == 0 {
			runtime.Gosched()
			return
		}
		<-time.After(d)
	}
	for n := 0; n < len(q.waiting) && len(q.waiting) < maxGroup; {
		n = len(q.waiting)
		pause(0)
	}
	for n := 0; q.answered > fewAnswered && len(q.waiting) < q.answered && n < looks && !q.closed; n++ {
		pause(atMost / looks)
	}
}

// cut takes the first commits for a group off the line.
func cut(line *[]*pending) []*pending {
	n := min(len(*line), maxGroup)
	group := (*line)[:n:n]
	*line = (*line)[n:]
	return group
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}
