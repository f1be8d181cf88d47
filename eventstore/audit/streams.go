package audit

import (
	"math"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/eventstore"
)

// head is the end of a stream.
type head struct {
	position eventstore.Position
	sequence uint64
	blind    bool // the state is unknown: a record is missing, or broke a rule
}

// stream is the end of a stream with the state that it leads to.
type stream[S any] struct {
	head
	state S
}

// streamAt is the stream of a key, with the state that it begins with if there is none yet.
func streamAt[K comparable, S any](all map[K]*stream[S], key K, begin S) *stream[S] {
	s := all[key]
	if s == nil {
		s = &stream[S]{state: begin}
		all[key] = s
	}
	return s
}

type payment struct {
	head
	created eventstore.Position // of its first event; 0: unknown
	absent  bool                // its details were not there, and nobody has erased them
	state   domain.Payment
}

// decodedLimit bounds each of the two maps of decoded payments.
const decodedLimit = 1 << 14

// streams holds the states of all streams. The events of a payment are mostly close together, so
// recently used payments are kept decoded. When recent is full, the payments in before are encoded
// and recent becomes before.
type streams struct {
	recent   map[domain.ID]*payment
	before   map[domain.ID]*payment
	encoded  map[domain.ID]string // recent and before have newer states
	payments uint64               // number of payments
	limit    int
	projects map[string]*stream[projects.Project]
	encoder  encoder

	installation stream[installation.Installation]

	sent      head              // of the stream of what senders of webhooks did
	begun     map[lane]uint32   // the highest sequence that was begun
	endpoints map[string]uint32 // their numbers in lanes

	settlements settlements
	payouts     payouts
}

// lane is a payment's notifications to an endpoint.
type lane struct {
	payment  domain.ID
	endpoint uint32
}

func newStreams(limit int) streams {
	return streams{
		recent: make(map[domain.ID]*payment), encoded: make(map[domain.ID]string), limit: limit,
		projects: make(map[string]*stream[projects.Project]), encoder: newEncoder(), begun: make(map[lane]uint32), endpoints: make(map[string]uint32),
		settlements: newSettlements(), payouts: newPayouts(),
	}
}

// payment returns the state of a payment, nil if it has no events yet.
func (s *streams) payment(id domain.ID) *payment {
	if p := s.recent[id]; p != nil {
		return p
	}
	p := s.before[id]
	if p != nil {
		delete(s.before, id)
	} else if encoded, ok := s.encoded[id]; ok {
		p = new(payment)
		*p = s.encoder.decode(id, encoded)
	} else {
		return nil
	}
	s.keep(id, p)
	return p
}

// add adds a new payment.
func (s *streams) add(id domain.ID, p *payment) {
	s.payments++
	s.keep(id, p)
}

func (s *streams) keep(id domain.ID, p *payment) {
	if len(s.recent) == s.limit {
		for id, p := range s.before {
			s.encoded[id] = s.encoder.encode(p)
		}
		s.recent, s.before = make(map[domain.ID]*payment, s.limit), s.recent
	}
	s.recent[id] = p
}

// each calls fn for every payment, in no order.
func (s *streams) each(fn func(*payment)) {
	for id, encoded := range s.encoded {
		if s.recent[id] == nil && s.before[id] == nil {
			p := s.encoder.decode(id, encoded)
			fn(&p)
		}
	}
	for _, newer := range []map[domain.ID]*payment{s.recent, s.before} {
		for _, p := range newer {
			fn(p)
		}
	}
}

// follow checks a record against the state of its stream and updates the state.
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
	case eventstore.KindInstallation:
		c.followInstallation(i)
	case eventstore.KindDeliveries:
		c.followDeliveries(i)
	case eventstore.KindSettlement:
		c.followSettlement(i)
	case eventstore.KindPayouts:
		c.followPayout(i)
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
	if r.Sequence == 1 {
		p.created = r.Position
	}
	c.details.follow(r, i.event, p)
	evolve(c, i, &p.head, &p.state, func() error {
		if _, ok := c.streams.projects[p.state.Project]; !ok && len(c.lost) == 0 {
			c.add(r, ImpossibleEvent, "project %s was not registered before", p.state.Project)
		}
		return p.state.Redecide(i.event, domain.Recorded{At: domain.IDTime(r.Commit), Version: i.version})
	})
	p.state = checked(p.state)
}

// evolve checks that the record follows the stream's head and that the rules lead from the state to its
// event, as redecide says, and moves both to it. The state is unknown after a record that breaks a rule.
func evolve[S interface{ Evolve(e domain.Event) S }](c *checker, i *item, h *head, state *S, redecide func() error) (known bool) {
	if !c.link(&i.record, h) || i.err != nil {
		h.blind = true
		return false
	}
	if err := redecide(); err != nil {
		c.add(&i.record, ImpossibleEvent, "%v", err)
		h.blind = true
	}
	*state = (*state).Evolve(i.event)
	return true
}

// checked is the payment without what no later rule reads.
func checked(p domain.Payment) domain.Payment {
	p.Description, p.Payload, p.Link = nil, nil, domain.Link{}
	return p
}

func (c *checker) followProject(i *item) {
	r := &i.record
	p := streamAt(c.streams.projects, r.Stream.ID, projects.Project{ID: r.Stream.ID})
	evolve(c, i, &p.head, &p.state, func() error {
		if r.Stream.Project != r.Stream.ID {
			c.add(r, BrokenStream, "a project's stream has the project's id")
		}
		return p.state.Redecide(i.event, domain.IDTime(r.Commit))
	})
}

// followDeliveries checks that no endpoint was ever sent a lower sequence of a payment
// than before.
func (c *checker) followDeliveries(i *item) {
	r, h := &i.record, new(head)
	if request, _ := domain.ParseID(r.Stream.ID); r.Stream == eventstore.DeliveriesStream() {
		h = &c.streams.sent
	} else if r.Stream != eventstore.RequestedStream(request) {
		c.add(r, BrokenStream, "it is neither the stream of deliveries nor that of a request to deliver again")
	}
	c.link(r, h)
	if i.err != nil {
		return
	}
	n, ok := i.event.(deliveries.Noted)
	if !ok {
		c.add(r, ImpossibleEvent, "%s is no event of deliveries", i.event.Type())
		return
	}
	if err := n.Check(); err != nil {
		c.add(r, ImpossibleEvent, "%v", err)
		return
	}
	for j := range n.Entries {
		to, e, _ := n.Entry(j) // was checked
		if e.What != deliveries.Begun {
			continue
		}
		number, known := c.streams.endpoints[to]
		if !known {
			number = uint32(len(c.streams.endpoints))
			c.streams.endpoints[to] = number
		}
		key := lane{e.Payment, number}
		if before := uint64(c.streams.begun[key]); e.Sequence < before {
			c.add(r, ImpossibleEvent, "endpoint %s was sent sequence %d of payment %s, and sequence %d before", to, e.Sequence, e.Payment, before)
			continue
		}
		c.streams.begun[key] = uint32(min(e.Sequence, math.MaxUint32))
	}
}

func (c *checker) followInstallation(i *item) {
	r, p := &i.record, &c.streams.installation
	known := evolve(c, i, &p.head, &p.state, func() error {
		if r.Stream != eventstore.InstallationStream() {
			c.add(r, BrokenStream, "a log has one installation")
		}
		return p.state.Redecide(i.event, domain.Recorded{At: domain.IDTime(r.Commit), Version: i.version})
	})
	if e, ok := i.event.(installation.LogRestored); ok && known {
		c.details.restored = max(c.details.restored, eventstore.Position(e.Position))
	}
}

// link checks that the record follows the stream's head, and moves the head to
// it. known is false when the stream's state before the record is unknown.
//
// A break is reported once: the next record is checked against this one. A break
// that lost records explain is not reported.
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
		if lacking := &c.report.Lacking; len(*lacking) < maxFindings {
			*lacking = append(*lacking, Lack{nameOf(r.Stream), h.sequence + 1, r.Sequence - 1, r.Position})
		}
	default:
		h.blind = true
		c.add(r, BrokenStream, "it has sequence %d and follows position %d; the stream's last event was position %d, sequence %d",
			r.Sequence, prev, h.position, h.sequence)
	}
	h.position, h.sequence = r.Position, r.Sequence
	return !h.blind
}

// explained reports whether the previous record of the stream may be one that
// could not be read. Exported lines do not name the previous record.
func (c *checker) explained(prev eventstore.Position, h head) bool {
	if c.options.Bare {
		return len(c.lost) > 0
	}
	return prev > h.position && (c.lost[prev] || c.missing)
}
