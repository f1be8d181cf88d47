package audit

import (
	"payledger/domain"
	"payledger/eventstore"
)

// head is how far a stream has come.
type head struct {
	position eventstore.Position
	sequence uint64
	blind    bool // its state is not known: a record of it is not, or broke the rules
}

type project struct {
	head
	state domain.Project
}

// streams are the states of all streams, payments packed.
type streams struct {
	payments map[domain.ID]string
	projects map[string]*project
	packer   packer
}

func newStreams() streams {
	return streams{payments: make(map[domain.ID]string), projects: make(map[string]*project), packer: newPacker()}
}

// follow checks a record against its stream and goes on with it.
func (c *checker) follow(i *item) {
	switch r := i.record; r.Stream.Kind {
	case eventstore.KindPayment:
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			c.add(r, BrokenStream, "the stream's id is not that of a payment")
			return
		}
		c.followPayment(i, id)
	case eventstore.KindProject:
		c.followProject(i)
	default:
		c.add(r, BrokenStream, "there are no streams of kind %q", r.Stream.Kind)
	}
}

func (c *checker) followPayment(i *item, id domain.ID) {
	r := i.record
	p, h := domain.Payment{Project: r.Stream.Project, ID: id}, head{}
	if packed, ok := c.streams.payments[id]; ok {
		h, p = c.streams.packer.unpack(id, packed)
		if p.Project != r.Stream.Project {
			c.add(r, BrokenStream, "the payment is one of project %s", p.Project)
			return
		}
	}
	h, known := c.link(r, h)
	h.blind = h.blind || i.err != nil
	if known && i.err == nil {
		if _, ok := c.streams.projects[p.Project]; !ok && len(c.lost) == 0 {
			c.add(r, ImpossibleEvent, "project %s was not registered before", p.Project)
		}
		if err := explainPayment(p, i.event, domain.IDTime(r.Commit)); err != nil {
			c.add(r, ImpossibleEvent, "%v", err)
			h.blind = true
		}
		p = p.Evolve(i.event)
	}
	c.streams.payments[id] = c.streams.packer.pack(h, p)
}

func (c *checker) followProject(i *item) {
	r := i.record
	p, ok := c.streams.projects[r.Stream.ID]
	if !ok {
		p = &project{state: domain.Project{ID: r.Stream.ID}}
		c.streams.projects[r.Stream.ID] = p
	}
	var known bool
	if p.head, known = c.link(r, p.head); !known || i.err != nil {
		p.blind = true
		return
	}
	if r.Stream.Project != r.Stream.ID {
		c.add(r, BrokenStream, "a project's stream has the project's id")
	}
	if err := explainProject(p.state, i.event); err != nil {
		c.add(r, ImpossibleEvent, "%v", err)
		p.blind = true
	}
	p.state = p.state.Evolve(i.event)
}

// link checks that the record follows the stream's head, and answers the new
// one; known is false when the stream's state before the record is not known.
//
// A break is reported once: from then on the stream is followed from where the
// record stands. One that lost records explain is not reported again.
func (c *checker) link(r eventstore.Stored, h head) (_ head, known bool) {
	prev := r.Prev
	if c.options.Bare {
		prev = h.position
	}
	good := r.Sequence == h.sequence+1 && prev == h.position
	switch {
	case good:
	case r.Sequence > h.sequence+1 && c.explained(prev, h):
		h.blind = true
	default:
		h.blind = true
		c.add(r, BrokenStream, "it has sequence %d and follows position %d; the stream's last event was position %d, sequence %d",
			r.Sequence, prev, h.position, h.sequence)
	}
	return head{position: r.Position, sequence: r.Sequence, blind: h.blind}, !h.blind
}

// explained reports whether a record that could not be read may be the one
// before in its stream. Exported lines do not say which one that is.
func (c *checker) explained(prev eventstore.Position, h head) bool {
	if c.options.Bare {
		return len(c.lost) > 0
	}
	return prev > h.position && (c.lost[prev] || c.missing)
}
