package salvage

import (
	"context"
	"io"
	"iter"
	"strconv"

	"payledger/eventstore"
)

// Records yields the records of the rebuilt log, up to Cut.
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

// Lost is a stream with readable events after Cut, but with missing events before
// them.
type Lost struct {
	Project string `json:"project"`
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	// From and Through are the sequences of the missing events. Position is that of
	// the last one, if known; else they were before position Before.
	From     uint64              `json:"from_sequence"`
	Through  uint64              `json:"through_sequence"`
	Position eventstore.Position `json:"position,omitempty"`
	Before   eventstore.Position `json:"before"`
}

// Rest summarises the readable events after Cut.
type Rest struct {
	Events uint64 `json:"events"` // number of lines: one for each different copy
	Lost   []Lost `json:"-"`
	More   uint64 `json:"-"` // number of lost streams that are not listed
}

// WriteRest writes the readable events after Cut as exported lines, one line for
// each different copy. sequence returns how many events of a stream are in the
// written log.
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

// before is the position of the previous event in the stream, 0 if no copy has it.
func (h here) before() eventstore.Position {
	for _, f := range h.copies {
		if f.record.Prev != 0 {
			return f.record.Prev
		}
	}
	return 0
}

// AppendLine appends an event as a line of an export.
func AppendLine(b []byte, at eventstore.Position, body []byte) []byte {
	b = strconv.AppendUint(append(b, lineBegin...), uint64(at), 10)
	return append(append(append(b, `,"event":`...), body...), '}', '\n')
}
