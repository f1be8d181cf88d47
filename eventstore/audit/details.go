package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"payledger/domain"
	"payledger/eventstore"
)

// details finds payments whose details are missing although nobody has erased them, and those that
// were erased and are there. That details are others than an event commits to, its decoder finds.
type details struct {
	absent int                                         // number of payments whose details were not there and are not erased since
	doubt  map[eventstore.Position]eventstore.Position // of erased ones that were there when they were read, and where they were erased
	// restored is up to where the log is one that was put in the place of another. A bundle and EVENTS
	// have no details, so a log made from them may lack them.
	restored eventstore.Position
}

// maxDetails bounds details.doubt.
const maxDetails = 1 << 16

func newDetails(restored eventstore.Position) details {
	return details{doubt: make(map[eventstore.Position]eventstore.Position), restored: restored}
}

// follow notes what the event of a payment's record says of details.
func (d *details) follow(r *eventstore.Stored, e domain.Event, p *payment) {
	switch e := e.(type) {
	case domain.PaymentCreated:
		if e.Erased() && !p.absent {
			p.absent = true
			d.absent++
		}
	case domain.PaymentDetailsErased:
		if p.absent {
			p.absent = false
			d.absent--
		} else if p.created != 0 && len(d.doubt) < maxDetails {
			d.doubt[p.created] = r.Position
		}
	}
}

// finish reports what was found, of the payments in s. Details in doubt are read again: they may have been erased after
// they were read.
func (d *details) finish(src Source, s *streams, r *Report) error {
	for _, at := range slices.Sorted(maps.Keys(d.doubt)) {
		for again, err := range src(at - 1) {
			if err != nil {
				return err
			}
			if again.Position < at {
				continue
			}
			if again.Position == at && again.Details != nil {
				r.Add(Finding{
					Kind: KeptDetails, Position: at, Stream: nameOf(again.Stream),
					Detail: fmt.Sprintf("the details that were erased at position %d are there", d.doubt[at]),
				})
			}
			break
		}
	}
	if d.absent == 0 {
		return nil
	}
	type lack struct {
		created eventstore.Position
		project string
		id      domain.ID
	}
	var missing []lack
	s.each(func(p *payment) {
		switch {
		case !p.absent:
		case p.created <= d.restored:
			r.NoDetails++
		default:
			missing = append(missing, lack{p.created, p.state.Project, p.state.ID})
		}
	})
	slices.SortFunc(missing, func(a, b lack) int { return cmp.Compare(a.created, b.created) })
	for _, l := range missing {
		r.Add(Finding{
			Kind: MissingDetails, Position: l.created, Stream: nameOf(eventstore.PaymentStream(l.project, l.id)),
			Detail: "the payment's details are not there, and nobody has erased them",
		})
	}
	return nil
}
