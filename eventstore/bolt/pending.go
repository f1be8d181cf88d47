package bolt

import (
	"context"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
)

// pending is a commit between Append and its result. The committer alone sets
// stored and err, and then tells so.
//
// While groups are quick, who waits does not look at the context, which may
// cost more than all else in Append. Once a group is slow, those who wait for
// it, or behind it, are told to.
type pending struct {
	ctx     context.Context
	commit  eventstore.Commit
	claim   claims.Name // of the commit's claim, if it has one
	told    chan news   // with room for all that is told
	delayed bool        // that was told; under the queue's lock
	stored  eventstore.Stored
	err     error
}

// news is what somebody is told who waits.
type news int

const (
	delayed news = iota // it takes a while: told once, or not at all
	settled             // the result is there: told last
)

// slowGroup is how long a group may be under way before it is slow.
const slowGroup = 50 * time.Millisecond

func newPending() *pending { return &pending{told: make(chan news, settled+1)} }

// wait waits for the result. ok is false when there is none yet, and the
// context has ended.
func (p *pending) wait() (ok bool) {
	if <-p.told == settled {
		return true
	}
	select {
	case <-p.told:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func (p *pending) delay() {
	if !p.delayed {
		p.delayed = true
		p.told <- delayed
	}
}

// watch looks after the group that is under way. It is under the queue's lock.
type watch struct {
	underWay []*pending
	slow     bool        // it is
	since    *time.Timer // runs as long as there is one
}

func (w *watch) begin(group []*pending, slow func()) {
	w.underWay = group
	switch {
	case len(group) == 0:
	case w.since == nil:
		w.since = time.AfterFunc(slowGroup, slow)
	default:
		w.since.Reset(slowGroup)
	}
}

func (w *watch) end() {
	w.underWay, w.slow = nil, false
	w.since.Stop()
}

// pending answers one for a commit. Who was told its result may free it.
func (q *queue) pending(ctx context.Context, c eventstore.Commit) *pending {
	p := q.spare.Get().(*pending)
	p.ctx, p.commit = ctx, c
	if c.Claim != nil {
		p.claim = nameOf(c.Record.Stream.Project, c.Claim)
	}
	return p
}

func (q *queue) free(p *pending) {
	*p = pending{told: p.told}
	q.spare.Put(p)
}

// delay tells everybody who waits that the group under way is slow.
func (q *queue) delay() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.underWay) == 0 {
		return
	}
	q.slow = true
	for _, waiting := range [...][]*pending{q.underWay, q.waiting, q.patient} {
		for _, p := range waiting {
			p.delay()
		}
	}
}

// answer tells those of the group that their results are there.
func (q *queue) answer(group []*pending) {
	q.mu.Lock()
	q.end()
	q.mu.Unlock()
	for _, p := range group {
		p.told <- settled
	}
}
