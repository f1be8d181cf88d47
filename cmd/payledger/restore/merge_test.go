package restore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"payledger/eventstore"
)

// taken is what the merge says of a position: a body, or why there is none.
type taken struct{ body, why string }

func at(p int, body string, g grade) piece {
	return piece{Stored: eventstore.Stored{Position: eventstore.Position(p), Body: []byte(body)}, grade: g}
}

func damaged(p int) piece {
	position := eventstore.Position(p)
	return piece{Stored: eventstore.Stored{Position: position}, bad: &eventstore.CorruptError{Position: position, Reason: "damaged"}}
}

func partOf(name string, pieces ...piece) *part {
	return &part{name: name, records: func(context.Context) iter.Seq2[piece, error] {
		return func(yield func(piece, error) bool) {
			for _, p := range pieces {
				if !yield(p, nil) {
					return
				}
			}
		}
	}}
}

// all reads a merge as the check of the records does: on, after each damage.
func all(t *testing.T, m *merge) map[int]taken {
	t.Helper()
	defer m.stop()
	got := make(map[int]taken)
	source := m.source(0)
	for more := true; more; {
		more = false
		for r, err := range source(0) {
			var corrupt *eventstore.CorruptError
			if err != nil && !errors.As(err, &corrupt) {
				t.Fatal(err)
			}
			if _, twice := got[int(r.Position)]; twice || r.Position == 0 {
				t.Fatalf("position %d, twice: %v", r.Position, twice)
			}
			got[int(r.Position)] = taken{body: string(r.Body)}
			if corrupt != nil {
				got[int(r.Position)] = taken{why: corrupt.Reason}
				more = true
				break
			}
		}
	}
	return got
}

// TestMerge compares a merge of random parts with what the rules say of all that the
// parts have at each position.
func TestMerge(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 9))
	for range 2000 {
		const last = 12
		here := make([][]piece, last+1)
		var parts []*part
		for i := range random.IntN(4) + 1 {
			var pieces []piece
			for p := 1; p <= last; p++ {
				for range random.IntN(3) {
					one := at(p, []string{"a", "a", "a", "b"}[random.IntN(4)], grade(random.IntN(3)))
					if random.IntN(6) == 0 {
						one = damaged(p)
					}
					pieces = append(pieces, one)
				}
			}
			for _, p := range pieces {
				here[p.Position] = append(here[p.Position], p)
			}
			parts = append(parts, partOf(fmt.Sprint(i), pieces...))
		}
		m := begin(t.Context(), parts)
		got := all(t, m)
		unproved := 0
		for p := 1; p <= last; p++ {
			bodies, unusedBodies, best := []string{}, []string{}, unused
			for _, one := range here[p] {
				switch {
				case one.bad != nil:
				case one.grade == unused:
					unusedBodies = append(unusedBodies, string(one.Body))
				default:
					bodies, best = append(bodies, string(one.Body)), max(best, one.grade)
				}
			}
			if len(bodies) == 0 {
				bodies = unusedBodies
			}
			slices.Sort(bodies)
			bodies = slices.Compact(bodies)
			r, found := got[p]
			switch {
			case len(here[p]) == 0:
				if found {
					t.Fatalf("position %d: nothing has it, the merge %v", p, r)
				}
			case len(bodies) == 0:
				if r.why != "damaged" {
					t.Fatalf("position %d: all is damaged, the merge says %v", p, r)
				}
			case len(bodies) > 1:
				if !strings.Contains(r.why, "different events") {
					t.Fatalf("position %d: parts differ, the merge says %v", p, r)
				}
			default:
				if r.body != bodies[0] {
					t.Fatalf("position %d: %v, want %s", p, r, bodies[0])
				}
				if best < recorded {
					unproved = p
				}
			}
		}
		if int(m.unproved) != unproved {
			t.Fatalf("unproved up to %d, want %d", m.unproved, unproved)
		}
	}
}

// TestUndoneCommit: an unused page has another event than the acknowledged one at
// the same position, which is in another source. Alone it is not proved.
func TestUndoneCommit(t *testing.T) {
	t.Parallel()
	undone := partOf("ledger.db", at(1, "a", recorded), at(2, "undone", unused))
	m := begin(t.Context(), []*part{undone, partOf("EVENTS", at(1, "a", recorded), at(2, "b", recorded))})
	if got := all(t, m); got[2] != (taken{body: "b"}) || m.unproved != 0 {
		t.Errorf("%v, unproved up to %d", got, m.unproved)
	}
	m = begin(t.Context(), []*part{undone})
	if got := all(t, m); got[2] != (taken{body: "undone"}) || m.unproved != 2 {
		t.Errorf("%v, unproved up to %d", got, m.unproved)
	}
}

// TestMergeUnreadable: a part that cannot be read to its end ends the merge with an
// error, and nothing of what comes then is taken for the log.
func TestMergeUnreadable(t *testing.T) {
	t.Parallel()
	gone := errors.New("input/output error")
	broken := &part{name: "broken", records: func(context.Context) iter.Seq2[piece, error] {
		return func(yield func(piece, error) bool) {
			if yield(at(1, "a", recorded), nil) {
				yield(piece{}, gone)
			}
		}
	}}
	m := begin(t.Context(), []*part{broken, partOf("whole", at(1, "a", recorded), at(2, "b", recorded))})
	defer m.stop()
	var err error
	for _, err = range m.source(0)(0) {
		if err != nil {
			break
		}
	}
	if !errors.Is(err, gone) || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%v", err)
	}
}
