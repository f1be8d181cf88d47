package audit

import (
	"fmt"
	"maps"
	"slices"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/eventstore"
)

// details finds payments whose details are missing although nobody has erased them, and those that
// were erased and are there. That details are others than an event commits to, its decoder finds.
type details struct {
	absent map[eventstore.Position]string              // streams by the position of the event that commits to the details
	more   uint64                                      // further ones, when absent is full
	doubt  map[eventstore.Position]eventstore.Position // of erased ones that were there when they were read, and where they were erased
	// restored is up to where the log is one that was put in the place of another. A bundle and EVENTS
	// have no details, so a log made from them may lack them.
	restored eventstore.Position
}

// maxDetails bounds the memory of details.
const maxDetails = 1 << 16

func newDetails(restored eventstore.Position) details {
	return details{
		absent: make(map[eventstore.Position]string), doubt: make(map[eventstore.Position]eventstore.Position), restored: restored,
	}
}

// follow notes what the event of a payment's record says of details. created is the position of the
// payment's first event.
func (d *details) follow(r *eventstore.Stored, e domain.Event, created eventstore.Position) {
	switch e := e.(type) {
	case domain.PaymentCreated:
		switch {
		case !e.Erased():
		case len(d.absent) < maxDetails:
			d.absent[r.Position] = nameOf(r.Stream)
		default:
			d.more++
		}
	case domain.PaymentDetailsErased:
		if _, gone := d.absent[created]; gone {
			delete(d.absent, created)
		} else if created != 0 && len(d.doubt) < maxDetails {
			d.doubt[created] = r.Position
		}
	case installation.LogRestored:
		d.restored = max(d.restored, eventstore.Position(e.Position))
	}
}

// finish reports what was found. Details in doubt are read again: they may have been erased after
// they were read.
func (d *details) finish(src Source, r *Report) error {
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
	for _, at := range slices.Sorted(maps.Keys(d.absent)) {
		if at > d.restored {
			r.Add(Finding{
				Kind: MissingDetails, Position: at, Stream: d.absent[at],
				Detail: "the payment's details are not there, and nobody has erased them",
			})
			continue
		}
		r.NoDetails++
	}
	r.NoDetails += d.more
	return nil
}
