package replog

import (
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// Nonce names the exact bytes of a group.
type Nonce [16]byte

// Group is one message of LOG: the records of one group of commits, or none.
type Group struct {
	bolt.Batch
	Nonce Nonce
}

// An event is an input of the machine, an effect an output, which the driver carries
// out. log is the id of an incarnation of LOG.
type (
	event  any
	effect any
)

// Events.
type (
	// heard is what LOG's servers said: which incarnation there is, the number of its
	// last message, whether it has any, and whose server leads it. It may be old news.
	// since is what the node had when it asked.
	heard struct {
		log    string // empty: there is no LOG, which was said for a while
		last   uint64
		empty  bool
		leader string
		since  place
	}
	// fed: LOG has this message. The next one follows when seq has reached it; until
	// then it is fed again.
	fed struct {
		place
		group *Group
	}
	// applied: the file has the group at this place, and ends at tip; or err says why it was not
	// added: a *bolt.GapError, a *bolt.DivergedError, or the file could not be written.
	applied struct {
		place
		end, tip bolt.Tip
		err      error
	}
	// stopping: the node is to take no part any more.
	stopping struct{ why error }
	// staged: the committer has staged a group and waits for the decision.
	staged struct{ batch bolt.Batch }
	// committed: the staged group that was decided for is durable.
	committed struct{ tip bolt.Tip }
	// accepted: LOG acknowledged the group with this nonce, as its message seq.
	accepted struct {
		nonce Nonce
		seq   uint64
	}
	// unknown: the publication had any other outcome. It may still be accepted.
	unknown struct{ nonce Nonce }
	// asked: a node that becomes the leader asks where this file ends.
	asked struct {
		question uint64
		log      string
	}
	// answered is a peer's answer; without one it refused, or cannot be reached.
	answered struct {
		from string
		term uint64
		tip  *bolt.Tip
	}
	// copied: records were copied from a peer, as far as it has any.
	copied struct {
		from string
		tip  bolt.Tip
		err  error
	}
	// loaded are records of the file.
	loaded struct{ batch bolt.Batch }
	// reading: a read arrived.
	reading struct{ read uint64 }
	// fitness says whether this node should lead if it can be avoided.
	fitness struct{ unfit bool }
	// leaving: another node is to lead: the one that is named, or any.
	leaving struct{ to string }
	tick    struct{}
)

// Effects.
type (
	// feed has the messages of LOG fed, from its first one on.
	feed struct{ log string }
	// apply ends in applied.
	apply struct {
		place
		group *Group
	}
	// publish publishes the group, which expects the message seq to be LOG's last. It
	// ends in accepted or unknown.
	publish struct {
		place
		group *Group
	}
	// decide answers the committer. If the group is taken back, doubt says that it may be
	// recorded nevertheless.
	decide struct{ commit, doubt bool }
	// ask asks a peer where its file ends. It ends in answered.
	ask struct {
		peer string
		term uint64
		log  string
	}
	answer struct {
		question uint64
		tip      *bolt.Tip // nil: refused
	}
	// copyFrom copies a peer's records from behind the end of the file, as long as it is
	// ready, or in any case. It ends in copied.
	copyFrom struct {
		peer  string
		ready bool
	}
	// load reads records of the file. It ends in loaded.
	load struct{ after eventstore.Position }
	// serve lets a read be answered; or refuses it: this node does not lead.
	serve struct {
		read    uint64
		refused bool
	}
	// found makes an empty LOG.
	found struct{}
	// stepDown asks LOG for another leader.
	stepDown struct{ to string }
	// stop: the node takes no part any more.
	stop struct{ why error }
)

// place is that of a message: LOG's incarnation and the number of the message.
type place struct {
	log string
	seq uint64
}

const (
	republishAfter = 50 * time.Millisecond // when it is not known what became of a group
	publishTime    = 2 * time.Second       // for LOG to answer
	askEvery       = 250 * time.Millisecond
	grace          = 500 * time.Millisecond // for the second peer's answer
	patience       = 2 * time.Second        // for a leader that cannot work; twice as long after a term that ended so
	foundEvery     = time.Second
)

// machine is one node's part in the cluster: single-threaded, without I/O, clock or
// chance. Times are those of a clock that only has to run forward at about the right
// speed.
type machine struct {
	name   string
	peers  []string
	start  [8]byte // differs from that of every other start of any node
	nonces uint64  // that were given to groups; landed is that of the newest one that LOG has
	landed uint64

	place   place    // the file has LOG's messages up to this one
	end     bolt.Tip // of that message
	read    bool     // there was one
	last    uint64   // of LOG, as was heard
	leader  string   // of LOG
	founded time.Duration

	tip        bolt.Tip            // the file's end
	gap        eventstore.Position // what the file lacks of records before the next message's
	applying   bool
	copying    bool
	loading    bool
	committing bool
	stopped    bool

	leads   bool
	ready   bool // the committer may stage, reads are served
	term    uint64
	began   time.Duration // when the term did; later, when a group was accepted last or there was none to publish
	asked   time.Duration
	answers map[string]*bolt.Tip // nil: refused

	waits  time.Duration // the patience of this term
	unfit  bool
	yields *leaving // ready, but takes nothing more
	asksTo bool     // LOG was asked for another leader

	staged *bolt.Batch
	flight *flight
	reads  []uint64
	askers []uint64
}

// flight is a group that was published and is not known to have its slot: the place behind
// the message that it expects.
type flight struct {
	group   *Group
	expects place
	staged  bool // by the committer
	barrier bool
	riders  []uint64 // reads that arrived before it was published
	again   time.Duration
}

func newMachine(name string, peers []string, start [8]byte, tip bolt.Tip) *machine {
	return &machine{name: name, peers: peers, start: start, tip: tip, waits: patience, answers: map[string]*bolt.Tip{}}
}

// step takes an event.
func (m *machine) step(now time.Duration, e event) []effect {
	return append(m.take(now, e), m.next(now)...)
}

func (m *machine) take(now time.Duration, e event) []effect {
	switch e := e.(type) {
	case heard:
		return m.hear(now, e)
	case fed:
		return m.fed(now, e)
	case applied:
		return m.applied(now, e)
	case stopping:
		return m.stop(now, e.why)
	case staged:
		if !m.ready || m.yields != nil || e.batch.After != m.end {
			return []effect{decide{}}
		}
		m.staged = &e.batch
	case committed:
		m.committing, m.tip = false, e.tip
	case accepted:
		if f := m.flight; f != nil && e.nonce == f.group.Nonce && e.seq == f.expects.seq+1 {
			return m.land(now)
		}
	case unknown:
		if f := m.flight; f != nil && e.nonce == f.group.Nonce {
			f.again = now + republishAfter
		}
	case asked:
		if m.stopped {
			return []effect{answer{e.question, nil}}
		}
		m.askers = append(m.askers, e.question)
		return m.follow(now, e.log)
	case answered:
		if e.term == m.term && m.leads && !m.ready {
			m.answers[e.from] = e.tip
		}
	case copied:
		return m.copied(now, e)
	case loaded:
		if m.loading = false; m.leads && !m.ready && m.flight == nil && e.batch.After == m.end && len(e.batch.Records) > 0 {
			return m.publish(now, e.batch, flight{})
		}
	case reading:
		if !m.ready || m.yields != nil {
			return []effect{serve{e.read, true}}
		}
		m.reads = append(m.reads, e.read)
	case fitness:
		m.unfit = e.unfit
	case leaving:
		if m.ready && m.yields == nil {
			m.yields, m.asksTo, m.began = &e, false, now
		}
	case tick:
		return m.tick(now)
	}
	return nil
}

// hear takes up what LOG's servers said.
func (m *machine) hear(now time.Duration, e heard) (out []effect) {
	switch {
	case e.log == "":
		out = m.lead(now, "")
		if now-m.founded >= foundEvery && !m.stopped {
			m.founded = now
			out = append(out, found{})
		}
		return out
	case e.log != m.place.log:
		out = m.follow(now, e.log)
	case e.log == e.since.log && e.last < e.since.seq:
		// LOG has forgotten messages. What is known of the others is read again; what the
		// file has behind LOG's end is published again by the leader.
		out = append(m.release(now), m.drop(true)...)
		m.from(e.log)
		out = append(out, feed{e.log})
	}
	m.last = e.last
	if e.empty && m.place.seq < e.last {
		m.place.seq = e.last
	}
	return append(out, m.lead(now, e.leader)...)
}

// follow begins with another incarnation of LOG. Nothing of the one before it is applied or
// committed from here on, so the answers to the other nodes about this file stay true.
func (m *machine) follow(now time.Duration, log string) []effect {
	if log == m.place.log {
		return nil
	}
	out := append(m.lead(now, ""), m.drop(true)...)
	m.from(log)
	return append(out, feed{log})
}

// from goes back to before the first message of LOG.
func (m *machine) from(log string) {
	m.place, m.end, m.read, m.last, m.gap = place{log: log}, bolt.Tip{}, false, 0, 0
}

// lead takes up whose server leads LOG.
func (m *machine) lead(now time.Duration, leader string) (out []effect) {
	m.leader = leader
	yes := leader == m.name
	switch {
	case !yes && m.leads:
		m.leads = false
		out = m.release(now)
	case yes && !m.leads:
		m.leads = true
		if m.begin(now); m.stopped || m.unfit {
			m.began -= m.waits
		}
	}
	return out
}

// begin begins a term: see acquire.
func (m *machine) begin(now time.Duration) {
	m.term++
	m.began, m.asked = now, now-askEvery
	clear(m.answers)
}

// release ends the leader's term. A group of the committer's that is under way may still be
// accepted: the feed shows it. If LOG's leader is still this node, the next term begins.
func (m *machine) release(now time.Duration) (out []effect) {
	if f := m.flight; f != nil {
		m.reads = append(m.reads, f.riders...)
		if f.riders = nil; !f.staged {
			m.flight = nil
		}
	}
	for _, r := range m.reads {
		out = append(out, serve{r, true})
	}
	if m.staged != nil {
		out = append(out, decide{})
	}
	m.reads, m.staged, m.ready, m.yields = nil, nil, false, nil
	if m.leads {
		m.begin(now)
	}
	return out
}

// drop gives up the group that is under way.
func (m *machine) drop(doubt bool) (out []effect) {
	if m.flight != nil && m.flight.staged {
		out = append(out, decide{doubt: doubt})
	}
	m.flight = nil
	return out
}

// fed looks at what LOG has.
func (m *machine) fed(now time.Duration, e fed) (out []effect) {
	if m.stopped || e.log != m.place.log || e.seq <= m.place.seq {
		return nil
	}
	if f := m.flight; f != nil && e.seq == f.expects.seq+1 && e.group.Nonce == f.group.Nonce {
		return m.land(now)
	}
	// Another node has published it. If it took the slot of the group under way, that one
	// is not recorded; if the slot was skipped, its fate is not known.
	if m.ready {
		out = m.release(now)
	}
	if f := m.flight; f != nil {
		out = append(out, m.drop(e.seq > f.expects.seq+1)...)
	}
	if m.applying || m.copying || m.committing {
		return out
	}
	m.applying = true
	return append(out, apply(e))
}

func (m *machine) applied(now time.Duration, e applied) []effect {
	m.applying = false
	if e.err == nil {
		m.tip = e.tip
	}
	var gap *bolt.GapError
	switch {
	case e.log != m.place.log:
	case e.err == nil:
		m.place, m.end, m.read, m.gap = e.place, e.end, true, 0
	case errors.As(e.err, &gap):
		m.gap = gap.After
	case errors.As(e.err, new(*bolt.DivergedError)):
		return m.stop(now, e.err)
	}
	return nil
}

// land: LOG has the group that was under way.
func (m *machine) land(now time.Duration) (out []effect) {
	f := m.flight
	m.flight = nil
	if !m.unfit { // else it stays as it was, however many reads it serves
		if now-m.began < patience/2 {
			m.waits = patience
		}
		m.began = now
	}
	m.place.seq++
	m.landed = binary.BigEndian.Uint64(f.group.Nonce[8:])
	m.end, m.read = f.group.End(), true
	if f.staged {
		m.committing = true
		out = append(out, decide{commit: true})
	}
	for _, r := range f.riders {
		out = append(out, serve{r, false})
	}
	if f.barrier && m.leads {
		m.ready = true
	}
	return out
}

func (m *machine) copied(now time.Duration, e copied) []effect {
	m.copying = false
	if e.tip.Last > m.tip.Last {
		m.tip = e.tip
	}
	switch {
	case e.err == nil:
	case !m.leads && e.from == m.leader && errors.As(e.err, new(*bolt.DivergedError)):
		return m.stop(now, e.err)
	default:
		delete(m.answers, e.from) // it is asked again
	}
	return nil
}

// stop ends the node's part: its file is not a part of LOG's history.
func (m *machine) stop(now time.Duration, why error) []effect {
	m.stopped = true
	out := append(append(m.release(now), m.drop(true)...), stop{why})
	if m.leads {
		out = append(out, stepDown{})
	}
	return out
}

func (m *machine) tick(now time.Duration) (out []effect) {
	if !m.leads {
		return nil
	}
	if f := m.flight; f != nil && now >= f.again {
		f.again = now + publishTime + republishAfter
		out = append(out, publish{f.expects, f.group})
	}
	switch {
	case m.ready && m.flight == nil && m.staged == nil && m.yields == nil && !m.unfit:
		m.began = now
	case now-m.began < m.waits:
	case m.yields != nil: // nobody else leads
		m.yields, m.began = nil, now
	default:
		if m.began = now; !m.unfit { // else the leadership of slow nodes goes round without an end
			m.waits = 2 * patience
		}
		out = append(out, stepDown{})
	}
	return out
}

// next does what is to be done, if nothing is under way that it has to wait for.
func (m *machine) next(now time.Duration) (out []effect) {
	if !m.applying && !m.committing {
		for _, q := range m.askers {
			tip := m.tip
			out = append(out, answer{q, &tip})
		}
		m.askers = nil
	}
	if m.leads && !m.ready && !m.stopped && m.place.log != "" && now-m.asked >= askEvery {
		m.asked = now
		for _, p := range m.peers {
			if m.answers[p] == nil {
				out = append(out, ask{p, m.term, m.place.log})
			}
		}
	}
	switch {
	case m.stopped || m.flight != nil || m.applying || m.copying || m.loading:
	case !m.leads:
		if m.gap > m.tip.Last && m.leader != "" && !m.committing {
			m.copying = true
			out = append(out, copyFrom{m.leader, true})
		}
	case !m.ready:
		out = append(out, m.acquire(now)...)
	case m.staged != nil:
		b := *m.staged
		m.staged = nil
		out = append(out, m.publish(now, b, flight{staged: true})...)
	case len(m.reads) > 0:
		out = append(out, m.publish(now, bolt.Batch{After: m.end}, flight{})...)
	case m.yields != nil && !m.committing && !m.asksTo:
		m.asksTo = true
		out = append(out, stepDown{m.yields.to})
	}
	return out
}

// acquire makes the node the leader that LOG says it is. Its file needs all that LOG has,
// and all that a peer has: what that is longer was accepted, and LOG has forgotten it. All
// of it is published again, and then a group without records, whose acceptance shows that
// LOG ends there. If LOG is empty, it does not say which file is the longest: then both
// peers have to.
func (m *machine) acquire(now time.Duration) []effect {
	known, all, longest, from := 0, true, m.tip.Last, ""
	for _, p := range m.peers {
		tip, answered := m.answers[p]
		all = all && answered
		if tip == nil {
			continue
		}
		known++
		if tip.Last > longest {
			longest, from = tip.Last, p
		}
	}
	trimmed := m.gap > m.tip.Last // LOG has no longer what the file lacks
	switch {
	case m.committing, m.place.seq < m.last && !trimmed, trimmed && from == "":
		return nil
	case known < min(1, len(m.peers)), !m.read && !trimmed && known < len(m.peers), !all && now-m.began < grace:
		return nil
	case from != "":
		m.copying = true
		return []effect{copyFrom{from, false}}
	case m.read && m.end.Last < m.tip.Last:
		m.loading = true
		return []effect{load{m.end.Last}}
	}
	return m.publish(now, bolt.Batch{After: m.tip}, flight{barrier: true})
}

// publish publishes a group in the next slot. Reads that wait are answered once it is
// accepted: then no other node's group was accepted since they arrived.
func (m *machine) publish(now time.Duration, b bolt.Batch, f flight) []effect {
	m.nonces++
	g := &Group{Batch: b}
	copy(g.Nonce[:], m.start[:])
	binary.BigEndian.PutUint64(g.Nonce[8:], m.nonces)
	f.group, f.expects, f.again = g, m.place, now+publishTime+republishAfter
	f.riders, m.reads = slices.Clone(m.reads), nil
	m.flight = &f
	return []effect{publish{f.expects, g}}
}
