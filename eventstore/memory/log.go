package memory

import (
	"context"
	"fmt"
	"maps"

	"payledger/domain"
	"payledger/eventstore"
)

// log is the content of a disk.
type log struct {
	records []eventstore.Stored // the one at position p has index p-1
	heads   map[eventstore.Stream]eventstore.Position
	ids     map[string][]eventstore.Position // of each stream id, in order
	claims  map[claimKey]eventstore.Position
	damaged map[eventstore.Position]bool
	blind   bool // a flaw: damage is not noticed
}

// claimKey is what a claim claims. A permanent claim belongs to no project.
type claimKey struct {
	project string
	key     domain.Digest
}

func keyOf(project string, c *eventstore.Claim) claimKey {
	if c.Forever {
		return claimKey{"", c.Key}
	}
	return claimKey{project, c.Key}
}

func newLog() *log {
	return &log{
		heads:   make(map[eventstore.Stream]eventstore.Position),
		ids:     make(map[string][]eventstore.Position),
		claims:  make(map[claimKey]eventstore.Position),
		damaged: make(map[eventstore.Position]bool),
	}
}

func (l *log) last() eventstore.Position { return eventstore.Position(len(l.records)) }

func (l *log) add(c eventstore.Commit) eventstore.Stored {
	r := eventstore.Stored{
		Position: l.last() + 1, Stream: c.Record.Stream, Sequence: 1, Prev: l.heads[c.Record.Stream],
		Commit: c.ID, At: domain.IDTime(c.ID).Time(), Claim: c.Claim, Body: c.Record.Body,
		Details: c.Record.Details, Erases: c.Record.Erases, Event: c.Record.Event,
	}
	if r.Prev != 0 {
		r.Sequence = l.records[r.Prev-1].Sequence + 1
	}
	l.index(r)
	l.records = append(l.records, r)
	return r
}

func (l *log) index(r eventstore.Stored) {
	l.heads[r.Stream] = r.Position
	l.ids[r.Stream.ID] = append(l.ids[r.Stream.ID], r.Position)
	if r.Claim != nil {
		l.claims[keyOf(r.Stream.Project, r.Claim)] = r.Position
	}
}

// erase removes the details that the records after a position erase.
func (l *log) erase(after eventstore.Position) {
	for _, r := range l.records[after:] {
		if !r.Erases {
			continue
		}
		first := r
		for first.Prev != 0 {
			first = l.records[first.Prev-1]
		}
		kept := &l.records[first.Position-1]
		kept.Details, kept.Event = nil, nil
	}
}

// truncate drops the records after the position.
func (l *log) truncate(after eventstore.Position) {
	l.records = l.records[:after]
	clear(l.heads)
	clear(l.ids)
	clear(l.claims)
	for _, r := range l.records {
		l.index(r)
	}
}

func (l *log) read(p eventstore.Position) (eventstore.Stored, error) {
	if l.damaged[p] && !l.blind {
		return eventstore.Stored{}, &eventstore.CorruptError{Position: p, Reason: "damaged on purpose"}
	}
	return l.records[p-1], nil
}

// Verify checks positions, sequences and links of all records, and the
// indexes against them.
func (s *Store) Verify(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return eventstore.ErrClosed
	}
	fresh := newLog()
	for i := range s.log.records {
		p := eventstore.Position(i + 1)
		r, err := s.log.read(p)
		if err != nil {
			return err
		}
		var sequence uint64
		if head := fresh.heads[r.Stream]; head != 0 {
			sequence = fresh.records[head-1].Sequence
		}
		if r.Position != p || r.Prev != fresh.heads[r.Stream] || r.Sequence != sequence+1 {
			return &eventstore.CorruptError{Position: p, Reason: fmt.Sprintf(
				"position %d, previous %d, sequence %d do not follow from the records before", r.Position, r.Prev, r.Sequence)}
		}
		if r.Claim != nil && fresh.claims[keyOf(r.Stream.Project, r.Claim)] != 0 {
			return &eventstore.CorruptError{Position: p, Reason: "its claim was made before"}
		}
		fresh.index(r)
		fresh.records = append(fresh.records, r)
	}
	if !maps.Equal(fresh.heads, s.log.heads) || !maps.Equal(fresh.claims, s.log.claims) {
		return &eventstore.CorruptError{Position: s.log.last(), Reason: "the indexes do not match the records"}
	}
	return nil
}
