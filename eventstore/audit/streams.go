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

type payment struct {
	head
	state domain.Payment
}

// unpackedLimit is how many payments of each of the two kinds are kept as they
// are.
const unpackedLimit = 1 << 14

// streams are the states of all streams. Most payments have their events close
// together: those that had one lately, and those of the span before, are kept
// as they are, all others packed.
type streams struct {
	lately   map[domain.ID]*payment
	before   map[domain.ID]*payment
	packed   map[domain.ID]string // what lately and before have is newer
	payments uint64               // that there are
	limit    int
	projects map[string]*project
	packer   packer
}

func newStreams(limit int) streams {
	return streams{
		lately: make(map[domain.ID]*payment), packed: make(map[domain.ID]string), limit: limit,
		projects: make(map[string]*project), packer: newPacker(),
	}
}

// payment answers the one to go on with, nil if it has no events yet.
func (s *streams) payment(id domain.ID) *payment {
	if p := s.lately[id]; p != nil {
		return p
	}
	p := s.before[id]
	if p != nil {
		delete(s.before, id)
	} else if packed, ok := s.packed[id]; ok {
		p = new(payment)
		p.head, p.state = s.packer.unpack(id, packed)
	} else {
		return nil
	}
	s.keep(id, p)
	return p
}

// add takes a payment that was not there.
func (s *streams) add(id domain.ID, p *payment) {
	s.payments++
	s.keep(id, p)
}

func (s *streams) keep(id domain.ID, p *payment) {
	if len(s.lately) == s.limit {
		for id, p := range s.before {
			s.packed[id] = s.packer.pack(p.head, p.state)
		}
		s.lately, s.before = make(map[domain.ID]*payment, s.limit), s.lately
	}
	s.lately[id] = p
}

// follow checks a record against its stream and goes on with it.
func (c *checker) follow(i *item) {
	switch r := &i.record; r.Stream.Kind {
	case eventstore.KindPayment:
		if i.payment.IsZero() {
			c.add(r, BrokenStream, "the stream's id is not that of a payment")
			return
		}
		c.followPayment(i)
	case eventstore.KindProject:
		c.followProject(i)
	default:
		c.add(r, BrokenStream, "there are no streams of kind %q", r.Stream.Kind)
	}
}

func (c *checker) followPayment(i *item) {
	r := &i.record
	p := c.streams.payment(i.payment)
	if p == nil {
		p = &payment{state: domain.Payment{Project: r.Stream.Project, ID: i.payment}}
		c.streams.add(i.payment, p)
	} else if p.state.Project != r.Stream.Project {
		c.add(r, BrokenStream, "the payment is one of project %s", p.state.Project)
		return
	}
	known := c.link(r, &p.head)
	p.blind = p.blind || i.err != nil
	if !known || i.err != nil {
		return
	}
	if _, ok := c.streams.projects[p.state.Project]; !ok && len(c.lost) == 0 {
		c.add(r, ImpossibleEvent, "project %s was not registered before", p.state.Project)
	}
	if err := p.state.Redecide(i.event, domain.Recorded{At: domain.IDTime(r.Commit), Version: i.version}); err != nil {
		c.add(r, ImpossibleEvent, "%v", err)
		p.blind = true
	}
	p.state = p.state.Evolve(i.event)
	p.state.Description, p.state.Payload, p.state.Link = nil, nil, domain.Link{} // no rule looks at them again
}

func (c *checker) followProject(i *item) {
	r := &i.record
	p, ok := c.streams.projects[r.Stream.ID]
	if !ok {
		p = &project{state: domain.Project{ID: r.Stream.ID}}
		c.streams.projects[r.Stream.ID] = p
	}
	if !c.link(r, &p.head) || i.err != nil {
		p.blind = true
		return
	}
	if r.Stream.Project != r.Stream.ID {
		c.add(r, BrokenStream, "a project's stream has the project's id")
	}
	if err := p.state.Redecide(i.event, domain.IDTime(r.Commit)); err != nil {
		c.add(r, ImpossibleEvent, "%v", err)
		p.blind = true
	}
	p.state = p.state.Evolve(i.event)
}

// link checks that the record follows the stream's head, and moves that on;
// known is false when the stream's state before the record is not known.
//
// A break is reported once: from then on the stream is followed from where the
// record stands. One that lost records explain is not reported again.
func (c *checker) link(r *eventstore.Stored, h *head) (known bool) {
	prev := r.Prev
	if c.options.Bare {
		prev = h.position
	}
	good := r.Sequence == h.sequence+1 && prev == h.position
	switch {
	case good:
	case r.Sequence > h.sequence+1 && c.explained(prev, *h):
		h.blind = true
	default:
		h.blind = true
		c.add(r, BrokenStream, "it has sequence %d and follows position %d; the stream's last event was position %d, sequence %d",
			r.Sequence, prev, h.position, h.sequence)
	}
	h.position, h.sequence = r.Position, r.Sequence
	return !h.blind
}

// explained reports whether a record that could not be read may be the one
// before in its stream. Exported lines do not say which one that is.
func (c *checker) explained(prev eventstore.Position, h head) bool {
	if c.options.Bare {
		return len(c.lost) > 0
	}
	return prev > h.position && (c.lost[prev] || c.missing)
}
