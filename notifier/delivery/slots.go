package delivery

import (
	"slices"
	"sync"
	"time"
)

// slowAfter is how long the requests of a quick endpoint take at most.
const slowAfter = time.Second

// slots bound the requests under way to all endpoints together. Each needs a
// socket, and a receiver that never answers keeps its own for domain.AnswerTime,
// so some slots are kept for endpoints that give them back soon. An endpoint is
// quick if its last request was over within slowAfter and none is under way for
// longer. Of all slots
//
//   - a project holds at most three quarters;
//   - endpoints that are not quick get slots while they hold less than half
//     together; the first one of an endpoint while less than five eighths; the
//     first one of a project while less than seven eighths.
//
// An endpoint that gets none waits in the queue. A free slot is granted to the
// queued endpoint that may have one more and holds the fewest; of several, to
// the first.
type slots struct {
	max int

	mu       sync.Mutex
	taken    int
	slow     int             // held by endpoints that are not quick
	projects map[string]*int // held by a project
	line     []*target
}

// share is what an endpoint holds of the slots. slots.mu guards it.
type share struct {
	project *int // held by the endpoint's project
	held    int
	granted int // of held: from the line, and not used so far
	late    int // requests under way for longer than slowAfter
	quick   bool
}

func newSlots(limit int) *slots { return &slots{max: limit, projects: make(map[string]*int)} }

func (s *slots) of(project string) share {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.projects[project] == nil {
		s.projects[project] = new(int)
	}
	return share{project: s.projects[project]}
}

// may reports whether an endpoint may hold one more. s.mu is held, as in every
// method that takes a share.
func (s *slots) may(e *share) bool {
	limit := s.max / 2
	switch {
	case s.taken >= s.max || *e.project >= s.max*3/4:
		return false
	case e.quick:
		return true
	case *e.project == 0:
		limit = s.max * 7 / 8
	case e.held == 0:
		limit = s.max * 5 / 8
	}
	return s.slow < limit
}

func (s *slots) add(e *share, n int) {
	s.taken += n
	*e.project += n
	e.held += n
	if !e.quick {
		s.slow += n
	}
}

// takeOrWait takes up to n slots for an endpoint. If there is none the endpoint
// is queued after this, and is nudged when one is granted to it.
func (s *slots) takeOrWait(t *target, n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	got := max(min(n, t.share.granted), 0)
	t.share.granted -= got
	for ; got < n && s.may(&t.share); got++ {
		s.add(&t.share, 1)
	}
	switch in := slices.Index(s.line, t); {
	case got == 0 && in < 0:
		s.line = append(s.line, t)
	case got > 0 && in >= 0:
		s.line = slices.Delete(s.line, in, in+1)
	}
	return got
}

// leave takes an endpoint that needs no slot out of the line.
func (s *slots) leave(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.line, t); i >= 0 {
		s.line = slices.Delete(s.line, i, i+1)
	}
	if n := t.share.granted; n > 0 {
		t.share.granted = 0
		s.add(&t.share, -n)
		s.grant()
	}
}

// give gives back n slots of an endpoint.
func (s *slots) give(t *target, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(&t.share, -n)
	s.grant()
}

// grant gives free slots to the queued endpoints.
func (s *slots) grant() {
	for s.taken < s.max {
		next := -1
		for i, t := range s.line {
			if s.may(&t.share) && (next < 0 || t.share.held < s.line[next].share.held) {
				next = i
			}
		}
		if next < 0 {
			return
		}
		t := s.line[next]
		s.line = slices.Delete(s.line, next, next+1)
		t.share.granted++
		s.add(&t.share, 1)
		t.nudge()
	}
}

// late notes that a request takes longer than slowAfter.
func (s *slots) late(t *target) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.share.late++
	s.setQuick(&t.share, false)
}

// over notes that a request is over, and whether it took longer than slowAfter.
func (s *slots) over(t *target, late bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.share.late -= one(late)
	s.setQuick(&t.share, !late && t.share.late == 0)
}

func (s *slots) setQuick(e *share, quick bool) {
	held := e.held
	s.add(e, -held)
	e.quick = quick
	s.add(e, held)
}

// waits reports whether an endpoint is queued.
func (s *slots) waits(t *target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.line, t)
}

// waiting is how many endpoints are queued.
func (s *slots) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.line)
}
