package restore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"payledger/eventstore"
	"payledger/eventstore/audit"
)

// piece is what a part has at a position.
type piece struct {
	eventstore.Stored

	grade grade
	bad   *eventstore.CorruptError // in place of the record; the position is set
	part  *part
}

// grade says how far a record can be trusted where no checkpoint covers it.
type grade int

const (
	// unused: a record with its checksum on a page that its ledger.db does not use.
	// The commit may be one that a crash undid, and the position another event's.
	unused grade = iota
	// stated: a line of an export, which has no checksum.
	stated
	// recorded: a record with its checksum on a page in use, or an event in EVENTS,
	// which receives only what is durable.
	recorded
)

// merge is one pass over all parts, position by position. A part whose positions
// run back makes the merge run back there, and the check of the records report it.
type merge struct {
	parts []*part
	heads []head
	err   error // of a part that cannot be read at all

	unproved eventstore.Position // the greatest position where the best record is not of grade recorded
}

// head is the next piece of a part.
type head struct {
	piece

	ok   bool
	next func() (piece, error, bool)
	stop func()
}

// begin begins a pass. It must be stopped.
func begin(ctx context.Context, parts []*part) *merge {
	m := &merge{parts: parts, heads: make([]head, len(parts))}
	for i, p := range parts {
		p.events = 0
		m.heads[i].next, m.heads[i].stop = iter.Pull2(p.records(ctx))
		m.advance(i)
	}
	return m
}

func (m *merge) stop() {
	for _, h := range m.heads {
		h.stop()
	}
}

func (m *merge) advance(i int) {
	h := &m.heads[i]
	var err error
	if h.piece, err, h.ok = h.next(); err != nil {
		h.ok, m.err = false, errors.Join(m.err, fmt.Errorf("reading %s: %w", m.parts[i].name, err))
	}
	h.part = m.parts[i]
	if h.ok && h.bad == nil {
		h.part.events++
	}
}

// position is the next one at which a part has something, 0 at the end.
func (m *merge) position() (at eventstore.Position) {
	for _, h := range m.heads {
		if h.ok && (at == 0 || h.Position < at) {
			at = h.Position
		}
	}
	return at
}

// take returns what the parts have at the next position: different records of the
// best grades, and damage only if there is no record. What is unused counts only
// where nothing else is.
func (m *merge) take() (all []piece) {
	at := m.position()
	for i := range m.heads {
		for m.heads[i].ok && m.heads[i].Position == at {
			all = better(all, m.heads[i].piece)
			m.advance(i)
		}
	}
	return all
}

func better(all []piece, p piece) []piece {
	rank := func(p piece) int { // damage, unused, all else
		if p.bad != nil {
			return 0
		}
		return min(int(p.grade), int(stated)) + 1
	}
	switch {
	case len(all) > 0 && rank(p) < rank(all[0]):
		return all
	case len(all) > 0 && rank(p) > rank(all[0]):
		all = all[:0]
	}
	for i := range all {
		if bytes.Equal(all[i].Body, p.Body) {
			all[i].grade = max(all[i].grade, p.grade)
			if all[i].Details == nil { // exports and EVENTS have none
				all[i].Details = p.Details
			}
			return all
		}
	}
	return append(all, p)
}

// next returns the record at the next position, or the damage there.
func (m *merge) next() (eventstore.Stored, error) {
	all := m.take()
	p := all[0]
	switch {
	case p.bad != nil:
		return p.Stored, p.bad
	case len(all) > 1:
		return p.Stored, &eventstore.CorruptError{Position: p.Position, Reason: fmt.Sprintf(
			"%s and %s have different events there: leave out the one that was altered", p.part.name, all[1].part.name)}
	case p.grade < recorded:
		m.unproved = max(m.unproved, p.Position)
	}
	return p.Stored, nil
}

// source yields the records up to a position; 0: all.
func (m *merge) source(until eventstore.Position) audit.Source {
	return func(eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) {
			for m.err == nil {
				at := m.position()
				if at == 0 || (until > 0 && at > until) || !yield(m.next()) {
					return
				}
			}
			yield(eventstore.Stored{}, m.err)
		}
	}
}
