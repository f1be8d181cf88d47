package salvage

import (
	"context"
	"io"
	"iter"
	"strconv"

	"payledger/eventstore"
)

// Records yields what is taken for the log: everything up to Cut.
func (p *Plan) Records(ctx context.Context) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		for h, err := range p.positions(ctx) {
			if err != nil {
				yield(eventstore.Stored{}, err)
				return
			}
			if h.position > p.Cut {
				return
			}
			for _, o := range h.options() {
				if leaf, ok := p.chosen[h.position]; (!ok || leaf == o.leaf) && !yield(o.record, nil) {
					return
				}
			}
		}
	}
}

// Lost is a stream that has events behind Cut but lacks some before them.
type Lost struct {
	Project string `json:"project"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	// The sequences of the missing events, and where they were: the position of
	// one where that is known, else before Before.
	From     uint64              `json:"from_sequence"`
	Through  uint64              `json:"through_sequence"`
	Position eventstore.Position `json:"position,omitempty"`
	Before   eventstore.Position `json:"before"`
}

// Rest is what is readable behind Cut.
type Rest struct {
	Events uint64 `json:"events"` // lines of it; where copies differ each has one
	Lost   []Lost `json:"-"`
	More   uint64 `json:"-"` // lost ones that are not listed
}

// WriteRest writes what is readable behind Cut as exported lines. Each copy that
// differs has a line. sequence answers how many events of a stream are in the
// log that was written.
func (p *Plan) WriteRest(ctx context.Context, w io.Writer, sequence func(eventstore.Stream) (uint64, error)) (Rest, error) {
	var rest Rest
	known := make(map[eventstore.Stream]uint64)
	var line []byte
	for h, err := range p.positions(ctx) {
		if err != nil {
			return rest, err
		}
		if h.position <= p.Cut {
			continue
		}
		for i, o := range h.options() {
			line = AppendLine(line[:0], h.position, o.record.Body)
			if _, err := w.Write(line); err != nil {
				return rest, err
			}
			rest.Events++
			if i > 0 {
				continue
			}
			r := o.record
			before, ok := known[r.Stream]
			if !ok {
				if before, err = sequence(r.Stream); err != nil {
					return rest, err
				}
			}
			known[r.Stream] = max(before, r.Sequence)
			if r.Sequence <= before+1 {
				continue
			}
			if len(rest.Lost) == maxListed {
				rest.More++
				continue
			}
			rest.Lost = append(rest.Lost, Lost{
				r.Stream.Project, r.Stream.Kind, r.Stream.ID, before + 1, r.Sequence - 1, h.before(), h.position,
			})
		}
	}
	return rest, nil
}

// before is the position of the event before in the stream, where a record
// tells.
func (h here) before() eventstore.Position {
	for _, f := range h.copies {
		if f.record.Prev != 0 {
			return f.record.Prev
		}
	}
	return 0
}

// AppendLine appends an event as an export has it.
func AppendLine(b []byte, at eventstore.Position, body []byte) []byte {
	b = strconv.AppendUint(append(b, lineBegin...), uint64(at), 10)
	return append(append(append(b, `,"event":`...), body...), '}', '\n')
}
