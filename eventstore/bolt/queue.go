package bolt

import (
	"context"
	"runtime"
	"sync"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
)

// maxWaiting is how many commits wait for their group at most, patient ones and
// others counted apart, so that neither can keep the others out.
const maxWaiting = 4096

// pending is a commit between Append and its result. The committer alone sets
// the result, before it closes done of the group.
type pending struct {
	ctx    context.Context
	commit eventstore.Commit
	name   claims.Name // of the commit's claim, if it has one
	result eventstore.Appended
}

// group is the commits that one transaction makes durable.
type group struct {
	commits []*pending
	awaited int           // how many of them are not patient
	since   time.Time     // when the first patient one came
	done    chan struct{} // closed when every commit has its result
	later   chan struct{} // closed just before done, for those with patient commits alone
}

func (g *group) patient() int { return len(g.commits) - g.awaited }

// answer lets the callers of Append return. When the committer waits again, Go runs
// the goroutine first that became ready last. So callers of patient commits come
// before the others, and readers of the log before both: otherwise the answer to a
// lone writer waits for what the router and the relay do.
func (g *group) answer() {
	close(g.later)
	close(g.done)
}

// refuse gives every commit the same error.
func refuse(commits []*pending, err error) {
	for _, p := range commits {
		p.result = eventstore.Appended{Err: err}
	}
}

// queue collects the next group while the committer is busy with the one before.
type queue struct {
	mu     sync.Mutex
	next   *group
	closed bool
	enough int           // awaited commits that the committer waits for
	wake   chan struct{} // holds a token when the committer should look at next
}

func newQueue() *queue {
	return &queue{next: newGroup(), enough: 1, wake: make(chan struct{}, 1)}
}

func newGroup() *group { return &group{done: make(chan struct{}), later: make(chan struct{})} }

// add puts the commits without an error into the next group. It returns the channel that is closed
// when they have their results, nil if there are none. A commit that does not fit gets ErrBusy.
func (q *queue) add(commits []pending, results []eventstore.Appended) (answered <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.next
	for i := range commits {
		if results[i].Err == nil {
			results[i].Err = q.put(&commits[i])
		}
		switch {
		case results[i].Err != nil:
		case !commits[i].commit.Patient:
			answered = g.done
		case answered == nil:
			answered = g.later
		}
	}
	if answered == nil {
		return nil
	}
	if g.awaited >= q.enough || g.awaited == 0 || g.patient() >= maxPatient {
		select {
		case q.wake <- struct{}{}:
		default: // there is a token
		}
	}
	return answered
}

func (q *queue) put(p *pending) error {
	g := q.next
	switch patient := p.commit.Patient; {
	case q.closed:
		return eventstore.ErrClosed
	case patient && g.patient() >= maxWaiting, !patient && g.awaited >= maxWaiting:
		return eventstore.ErrBusy
	case !patient:
		g.awaited++
	case g.patient() == 0:
		g.since = time.Now()
	}
	g.commits = append(g.commits, p)
	return nil
}

// take waits until the policy lets the next group be committed, and returns it: nil when the queue
// is closed and empty. Only the committer calls it.
func (q *queue) take(p groupPolicy) *group {
	for free := time.Now(); ; {
		q.gather()
		g, wait := q.leave(p, free)
		switch wait {
		case 0:
			return g
		case idle:
			<-q.wake // without a timer, which costs a lone writer a tenth more CPU
			continue
		}
		select {
		case <-q.wake:
		case <-time.After(wait):
		}
	}
}

// gather lets the writers that are ready to run add their commits, until no more
// come. A lone writer does not pay for it.
func (q *queue) gather() {
	for before := 1; ; runtime.Gosched() {
		q.mu.Lock()
		n := q.next.awaited
		q.mu.Unlock()
		if n <= before {
			return
		}
		before = n
	}
}

// idle is the wait for the first commit of a group.
const idle = -1

// leave takes the next group, or returns how long to wait for it if nothing is added.
func (q *queue) leave(p groupPolicy, free time.Time) (g *group, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	g, q.enough = q.next, 1
	switch {
	case len(g.commits) == 0 && q.closed:
		return nil, 0
	case len(g.commits) == 0:
		return nil, idle
	case q.closed:
	default:
		if wait = p.wait(g, free, time.Now()); wait > 0 {
			if g.awaited > 0 {
				q.enough = p.awaited
			}
			return nil, wait
		}
	}
	q.next = newGroup()
	q.next.commits = make([]*pending, 0, len(g.commits))
	return g, 0
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.wake)
	}
}

// groupPolicy decides when a group is committed, by the group before it. The zero value does not
// wait.
//
// Patient commits wait for others to share their syncs, up to twice the time that
// the last group took: a writer that was just answered is back by then. Without
// this, a lone writer finds the committer busy with the patient commit that
// followed his last one: 236 commits/s instead of 396, and twice the CPU.
//
// Other commits wait until as many are there as in the last group, at most half the time that it
// took: a group without those who were just answered costs a transaction and two syncs more.
// Without this, 64 writers reach 47 commits a group instead of 62, 7,700 commits/s instead of
// 11,400, with a third more CPU for each.
//
//	go test -run XXX -bench Append ./eventstore/bolt
type groupPolicy struct {
	took    time.Duration // of the last group, from free to answered
	awaited int           // commits of the last group that were not patient
}

const (
	minDelay = time.Millisecond
	maxDelay = 20 * time.Millisecond

	maxRefill  = 5 * time.Millisecond
	minWriters = 8 // fewer are not waited for: a sleep takes a millisecond at least

	maxPatient = 256 // this many patient commits do not wait for others
)

// wait is how long a group with commits waits; free is when the committer became free.
func (p groupPolicy) wait(g *group, free, now time.Time) time.Duration {
	switch {
	case g.patient() >= maxPatient:
		return 0
	case g.awaited == 0:
		return min(max(2*p.took, minDelay), maxDelay) - now.Sub(g.since)
	case p.awaited <= minWriters || g.awaited >= p.awaited:
		return 0
	}
	return min(p.took/2, maxRefill) - now.Sub(free)
}
