package replog

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// A simulation of three nodes, LOG and clients in one goroutine: all that happens
// follows from the seed. The nodes' machines are the real ones; the file, the network
// and LOG are models. LOG's is of what JetStream promises and no more: a slot is
// decided once, and any answer may be late, lost or a mistake. And it may forget.

const (
	simNodes   = 3
	simStreams = 4
	lostAfter  = 2 * time.Second
)

type world struct {
	random *rand.Rand
	now    time.Duration
	queue  occasions
	count  int
	wrong  string // the first promise that was broken; empty: none
	flaw   flaw
	calm   bool          // no more faults, and no more clients
	quiet  bool          // no faults at all
	lag    time.Duration // of every message and every sync, beside the usual

	log       *simLog // nil: lost
	lostAt    time.Duration
	logs      int
	leader    int // -1: none
	proposals int // that the leader has taken and LOG does not have
	flying    int // publications on their way to this LOG
	late      []*publication
	nodes     []*simNode
	cut       [simNodes][simNodes]bool

	commands []*command
	known    [][]byte // the records that somebody was told of, in a run from the first
	lastID   uint64
	demanded int // reads and commands that have to succeed
	asking   map[uint64]func(*bolt.Tip)
	done     struct{ ok, replayed, conflicts, unknown, refused, reads, refusedReads, elections, acquired, forgotten, lost, copied, restored, trimmed, late int }
}

// simLog is an incarnation of LOG.
type simLog struct {
	id     string
	first  uint64
	groups []*Group // by number from 1
}

func (l *simLog) last() uint64 { return uint64(len(l.groups)) }

type publication struct {
	node *simNode
	publish
}

// flaw is a mistake that the simulation has to notice.
type flaw struct {
	refusedByError bool // a publication that failed is taken for one that did not happen
	twoInFlight    bool // while the outcome of one slot is unknown, the next one is published
	noBarrier      bool // reads are answered from what the leader's file has
	lateRiders     bool // a barrier serves reads that came after it was published
	byItself       bool // a follower answers reads from its file
	anyIncarnation bool // a group of an older incarnation of LOG that fits is taken
	gapSkipped     bool // what lies before a group is not missed
	unasked        bool // a leader takes office without asking its peers
	longerIgnored  bool // a peer's longer file is not copied from
	nonceReused    bool // other bytes are published under the nonce of a group whose fate is unknown
	oneOfEmpty     bool // one peer's answer is enough where LOG is empty
}

// step is the machine's, with the flaw.
func (n *simNode) step(e event) (out []effect) {
	f, m := n.w.flaw, n.m
	switch e := e.(type) {
	case unknown:
		if fl := m.flight; fl == nil || fl.group.Nonce != e.nonce {
			break
		}
		switch {
		case f.refusedByError || f.twoInFlight:
			out = m.drop(false)
			if f.twoInFlight {
				m.place.seq++
			}
		case f.nonceReused && m.flight.staged:
			n.reused = &m.flight.group.Nonce
			out = m.drop(true)
		}
	case reading:
		if (f.noBarrier && m.ready) || (f.byItself && m.place.log != "") {
			return []effect{serve{e.read, false}}
		}
		if f.lateRiders && m.ready && m.flight != nil {
			m.flight.riders = append(m.flight.riders, e.read)
			return nil
		}
	case applied:
		if f.gapSkipped && errors.As(e.err, new(*bolt.GapError)) && e.log == m.place.log {
			m.applying, m.place, m.read = false, e.place, true
			return nil
		}
	case answered:
		if f.longerIgnored && e.tip != nil {
			e.tip = &bolt.Tip{}
		}
		return append(out, m.step(n.clock(), e)...)
	}
	if f.unasked && m.leads && !m.ready {
		for _, p := range m.peers {
			m.answers[p] = &bolt.Tip{}
		}
	}
	if f.oneOfEmpty && m.leads && !m.ready && !m.read && len(m.answers) > 0 {
		for _, p := range m.peers {
			if m.answers[p] == nil {
				m.answers[p] = &bolt.Tip{}
			}
		}
	}
	out = append(out, m.step(n.clock(), e)...)
	if n.reused != nil && m.flight != nil && m.flight.staged && m.flight.expects == n.reusedAt {
		m.flight.group.Nonce, n.reused = *n.reused, nil
	}
	if m.flight != nil {
		n.reusedAt = m.flight.expects
	}
	return out
}

type occasion struct {
	at    time.Duration
	order int
	do    func()
}

type occasions []occasion

func (q occasions) Len() int { return len(q) }
func (q occasions) Less(i, j int) bool {
	return q[i].at < q[j].at || (q[i].at == q[j].at && q[i].order < q[j].order)
}
func (q occasions) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *occasions) Push(x any)   { *q = append(*q, x.(occasion)) } //nolint:forcetypeassert // the only type
func (q *occasions) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

func (w *world) after(d time.Duration, do func()) {
	w.count++
	heap.Push(&w.queue, occasion{w.now + d, w.count, do})
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == "" {
		w.wrong = fmt.Sprintf("at %v: ", w.now) + fmt.Sprintf(format, args...)
	}
}

func (w *world) chance(perMille int) bool {
	return !w.calm && !w.quiet && w.random.IntN(1000) < perMille
}

func (w *world) delay() time.Duration {
	d := w.lag + time.Millisecond + time.Duration(w.random.IntN(8000))*time.Microsecond
	if w.chance(25) {
		d += time.Duration(w.random.IntN(2500)) * time.Millisecond
	}
	return d
}

// net brings a message from one node to another, perhaps not, perhaps twice.
func (w *world) net(from, to int, do func()) {
	for range 1 + w.random.IntN(50)/49 {
		if w.cut[from][to] || w.chance(15) {
			continue
		}
		w.after(w.delay(), do)
	}
}

// A record of the simulation is a command's id, its key and its stream.
type command struct {
	id, key  uint64 // the key is that of a command that is sent again; 0: none
	stream   int
	expect   uint64 // position of the stream's last record, as the client knows it
	told     func(result)
	position uint64
	refused  bool
}

func (c *command) record() []byte {
	b := binary.BigEndian.AppendUint64(nil, c.id)
	return append(binary.BigEndian.AppendUint64(b, c.key), byte(c.stream))
}

type outcome int

const (
	unsure outcome = iota
	recorded
	conflict
	refused // it did not happen
)

type result struct {
	outcome  outcome
	position uint64
}

// file is the model of bolt's.
type file struct {
	records [][]byte
	heads   [simStreams]uint64
	keys    map[uint64]uint64
}

func newFile() *file { return &file{keys: map[uint64]uint64{}} }

func (f *file) tipAt(last eventstore.Position) bolt.Tip {
	if last == 0 {
		return bolt.Tip{}
	}
	return bolt.Batch{After: bolt.Tip{Last: last - 1}, Records: f.records[last-1 : last]}.End()
}

func (f *file) tip() bolt.Tip { return f.tipAt(eventstore.Position(len(f.records))) }

func (f *file) add(r []byte) {
	f.records = append(f.records, r)
	at := uint64(len(f.records))
	f.heads[r[16]] = at
	if key := binary.BigEndian.Uint64(r[8:]); key != 0 {
		f.keys[key] = at
	}
}

// extend is bolt's Extend.
func (f *file) extend(b bolt.Batch) (bolt.Tip, error) {
	last := eventstore.Position(len(f.records))
	switch {
	case b.After.Last > last:
		return bolt.Tip{}, &bolt.GapError{Last: last, After: b.After.Last}
	case f.tipAt(b.After.Last) != b.After:
		return bolt.Tip{}, &bolt.DivergedError{At: b.After.Last}
	}
	for i, r := range b.Records {
		at := b.After.Last + eventstore.Position(i) + 1
		if at <= last && !bytes.Equal(f.records[at-1], r) {
			return bolt.Tip{}, &bolt.DivergedError{At: at}
		}
	}
	for _, r := range b.Records[min(int(last-b.After.Last), len(b.Records)):] {
		f.add(r)
	}
	return f.tip(), nil
}

// batchAfter is bolt's BatchAfter.
func (f *file) batchAfter(after eventstore.Position, limit int) bolt.Batch {
	rest := f.records[min(int(after), len(f.records)):]
	return bolt.Batch{After: f.tipAt(after), Records: slices.Clone(rest[:min(len(rest), limit)])}
}

type simNode struct {
	w      *world
	self   int
	name   string
	file   *file
	m      *machine
	up     bool
	life   int
	paused time.Duration
	ahead  time.Duration // the node's clock

	feeding string // incarnation of LOG
	cursor  uint64
	missing time.Duration // since when it is told that there is no LOG; 0: it is not

	waiting  []pendingCommit
	staged   []pendingCommit
	deciding bool
	batch    bolt.Batch
	reads    map[uint64]func(refused bool)

	reused   *Nonce // of nonceReused
	reusedAt place
}

type pendingCommit struct {
	command *command
	reply   func(result)
	result  result
}

func newWorld(seed uint64, f flaw) *world {
	w := &world{random: rand.New(rand.NewPCG(seed, 17)), flaw: f, leader: -1, asking: map[uint64]func(*bolt.Tip){}}
	for i := range simNodes {
		w.nodes = append(w.nodes, &simNode{w: w, self: i, name: string(rune('A' + i)), file: newFile()})
	}
	// One node has a log already, as after cluster init.
	for i := range w.random.IntN(4) {
		c := &command{id: uint64(1<<32 + i), stream: i}
		w.nodes[0].file.add(c.record())
	}
	for _, n := range w.nodes {
		n.start()
	}
	for range 5 {
		w.client()
	}
	w.after(lostAfter+time.Second, w.fault)
	return w
}

// run plays so long with faults, then heals everything and looks at what is left.
func (w *world) run(d time.Duration) {
	w.until(d)
	w.calm = true
	w.cut = [simNodes][simNodes]bool{}
	for _, n := range w.nodes {
		n.paused = 0
		n.start()
	}
	if w.log != nil {
		w.elect(w.random.IntN(simNodes))
	}
	w.until(d + 15*time.Second)
	w.demand()
	w.until(d + 20*time.Second)
	if w.wrong == "" && w.demanded > 0 {
		w.fail("%d reads and commands are not answered although nothing goes wrong any more", w.demanded)
	}
	w.audit()
}

// demand sends a read and a command to each node, which have to succeed.
func (w *world) demand() {
	for _, n := range w.nodes {
		w.demanded += 2
		w.read(n, func(ok bool) {
			w.demanded--
			if !ok {
				w.fail("node %s refuses a read although nothing goes wrong any more", n.name)
			}
			c := w.command(n.self)
			c.told = func(r result) {
				if w.demanded--; r.outcome != recorded {
					w.fail("node %s answers a command with outcome %d although nothing goes wrong any more", n.name, r.outcome)
				}
			}
			w.send(n, c)
		})
	}
}

func (w *world) until(end time.Duration) {
	for len(w.queue) > 0 && w.queue[0].at <= end && w.wrong == "" {
		o, _ := heap.Pop(&w.queue).(occasion)
		w.now = o.at
		o.do()
	}
	w.now = end
}

func (w *world) audit() {
	records := w.nodes[0].file.records
	for _, n := range w.nodes[1:] {
		if !slices.EqualFunc(n.file.records, records, bytes.Equal) {
			w.fail("node %s has %d records, node A %d, or other ones", n.name, len(n.file.records), len(records))
		}
	}
	ids, keys := map[uint64]uint64{}, map[uint64]uint64{}
	for i, r := range records {
		id, key, at := binary.BigEndian.Uint64(r), binary.BigEndian.Uint64(r[8:]), uint64(i+1)
		if ids[id] != 0 || (key != 0 && keys[key] != 0) {
			w.fail("command %d with key %d is at %d and at %d or %d", id, key, at, ids[id], keys[key])
		}
		ids[id], keys[key] = at, at
	}
	for _, c := range w.commands {
		at := ids[c.id]
		if c.key != 0 {
			at = keys[c.key]
		}
		if c.position != 0 && at != c.position {
			w.fail("command %d was answered with position %d and is at %d", c.id, c.position, at)
		}
		if c.refused && ids[c.id] != 0 {
			w.fail("command %d was refused and is at %d", c.id, ids[c.id])
		}
	}
	w.shown("the end", records)
}

// shown takes up that somebody was told of records, all from the first on. What
// was shown before stays.
func (w *world) shown(who string, records [][]byte) {
	n := min(len(records), len(w.known))
	if !slices.EqualFunc(records[:n], w.known[:n], bytes.Equal) {
		w.fail("%s shows other records than were shown before", who)
	}
	if len(records) > n {
		w.known = slices.Clone(records)
	}
}

// client sends one command or read after the other, each to any node.
func (w *world) client() {
	if w.calm {
		return
	}
	n := w.nodes[w.random.IntN(simNodes)]
	again := once(func() { w.after(time.Duration(w.random.IntN(60))*time.Millisecond, w.client) })
	w.after(6*time.Second, again) // the answer may be lost
	if w.random.IntN(10) < 4 {
		w.read(n, func(bool) { again() })
		return
	}
	c := w.command(w.random.IntN(simStreams))
	if w.random.IntN(2) == 0 {
		c.key = c.id
	}
	w.try(n, c, again)
}

// try sends a command, and again if it has a key and no answer.
func (w *world) try(n *simNode, c *command, done func()) {
	lost := once(func() {
		if c.key == 0 || w.calm {
			done()
			return
		}
		repeated := w.command(c.stream)
		repeated.key = c.key
		w.try(w.nodes[w.random.IntN(simNodes)], repeated, done)
	})
	w.after(3*time.Second, lost)
	c.told = func(r result) {
		if r.outcome == unsure {
			w.done.unknown++
			w.after(300*time.Millisecond, lost)
			return
		}
		lost = func() {}
		done()
	}
	w.send(n, c)
}

func (w *world) command(stream int) *command {
	w.lastID++
	c := &command{id: w.lastID, stream: stream}
	for i, r := range w.known {
		if int(r[16]) == stream {
			c.expect = uint64(i + 1)
		}
	}
	w.commands = append(w.commands, c)
	return c
}

func once(f func()) func() {
	done := false
	return func() {
		if !done {
			done = true
			f()
		}
	}
}

// leaderFor is the node that a request at this one is forwarded to; nil: nobody is.
func (n *simNode) leaderFor() *simNode {
	if n.m.ready || n.w.flaw.byItself {
		return n
	}
	for _, p := range n.w.nodes {
		if n.up && p.name == n.m.leader {
			return p
		}
	}
	return nil
}

// forward brings a request to the leader and calls do there.
func (w *world) forward(n *simNode, refuse func(), do func(to *simNode)) {
	if !n.up {
		w.after(time.Millisecond, refuse)
		return
	}
	n.alive(n.life, func() {
		switch to := n.leaderFor(); to {
		case nil:
			refuse()
		case n:
			do(n)
		default:
			arrived := once(func() { do(to) })
			w.net(n.self, to.self, func() { to.alive(to.life, arrived) })
		}
	})
}

// send sends a command.
func (w *world) send(n *simNode, c *command) {
	told := once1(func(r result) {
		switch r.outcome {
		case recorded:
			w.done.ok++
			c.position = r.position
		case conflict:
			w.done.conflicts++
			c.refused = true
		case refused:
			w.done.refused++
			c.refused = true
		case unsure:
		}
		c.told(r)
	})
	w.forward(n, func() { told(result{}) }, func(to *simNode) {
		to.later(time.Duration(w.random.IntN(3000))*time.Microsecond, to.stage)
		to.waiting = append(to.waiting, pendingCommit{command: c, reply: func(r result) {
			if r.outcome == recorded || r.outcome == conflict {
				w.shown("node "+to.name, to.file.records[:r.position])
			}
			w.net(to.self, n.self, func() { told(r) })
		}})
	})
}

func once1(f func(result)) func(result) {
	done := false
	return func(r result) {
		if !done {
			done = true
			f(r)
		}
	}
}

// read sends a read.
func (w *world) read(n *simNode, told func(ok bool)) {
	w.lastID++
	id := w.lastID
	need := len(w.known)
	refuse := func() { told(false) }
	w.forward(n, refuse, func(to *simNode) {
		to.reads[id] = func(refusing bool) {
			if refusing {
				w.done.refusedReads++
				told(false)
				return
			}
			if len(to.file.records) < need {
				w.fail("a read on node %s sees %d records, %d were known before it", to.name, len(to.file.records), need)
			}
			w.done.reads++
			w.shown("node "+to.name, to.file.records)
			told(true)
		}
		to.event(reading{id})
	})
}

// fault lets something go wrong from time to time.
func (w *world) fault() {
	if w.calm || w.quiet {
		return
	}
	w.after(time.Duration(200+w.random.IntN(2200))*time.Millisecond, w.fault)
	n := w.nodes[w.random.IntN(simNodes)]
	if w.random.IntN(3) == 0 && w.leader >= 0 {
		n = w.nodes[w.leader]
	}
	other := w.random.IntN(simNodes)
	switch w.random.IntN(15) {
	case 0, 1:
		if n.up {
			n.crash()
			w.replace(n.self)
			n.restored()
			w.after(time.Duration(w.random.IntN(4000))*time.Millisecond, n.start)
		}
	case 2:
		n.paused = w.now + time.Duration(w.random.IntN(6000))*time.Millisecond
		w.replace(n.self)
	case 3, 4:
		for i := range simNodes {
			w.cut[n.self][i], w.cut[i][n.self] = i != n.self, i != n.self
		}
		w.replace(n.self)
		w.after(time.Duration(w.random.IntN(5000))*time.Millisecond, func() { w.cut = [simNodes][simNodes]bool{} })
	case 5:
		w.cut[n.self][other] = n.self != other // one way
		w.after(time.Duration(w.random.IntN(3000))*time.Millisecond, func() { w.cut[n.self][other] = false })
	case 6, 7:
		w.elect(other)
	case 8:
		n.ahead += time.Duration(w.random.IntN(20000)) * time.Millisecond
	case 9:
		w.forget()
	case 10:
		w.lose()
	case 11, 12, 13:
		w.trim()
	case 14:
		n.event(leaving{})
	}
}

// replace has LOG find another leader in place of one that is gone.
func (w *world) replace(gone int) {
	w.after(time.Duration(200+w.random.IntN(1500))*time.Millisecond, func() {
		if w.leader == gone {
			w.elect((gone + 1 + w.random.IntN(simNodes-1)) % simNodes)
		}
	})
}

// elect makes a node's server LOG's leader. Everybody hears of it at another time.
func (w *world) elect(leader int) {
	if w.log == nil {
		return
	}
	w.leader, w.proposals = leader, 0
	w.done.elections++
	for _, n := range w.nodes {
		w.after(w.delay()+time.Duration(w.random.IntN(800))*time.Millisecond, func() {
			if n.up && w.now >= n.paused {
				n.hear()
			}
		})
	}
}

// hear tells the node what LOG's servers say.
func (n *simNode) hear() {
	w, since, log := n.w, n.m.place, n.w.log
	switch {
	case log == nil:
		if w.lostAt+lostAfter <= w.now {
			n.event(heard{})
		}
		return
	case w.leader < 0 || w.cut[n.self][w.leader] || !w.nodes[w.leader].up:
		return
	}
	h := heard{log: log.id, last: log.last(), empty: log.first > log.last(), leader: w.nodes[w.leader].name, since: since}
	if w.chance(100) {
		h.last -= uint64(w.random.IntN(2)) * min(1, h.last) // old news
	}
	w.net(w.leader, n.self, func() { n.event(h) })
}

// forget takes an acknowledged tail from LOG, which it must not do, and which two
// files have.
func (w *world) forget() {
	if w.log == nil || w.flying > 0 || w.proposals > 0 || w.done.restored > 0 {
		return
	}
	k := 1 + w.random.IntN(3)
	last := w.log.last()
	if last <= uint64(k) || last-uint64(k) < w.log.first {
		return
	}
	end := w.log.groups[last-1].End()
	have := 0
	for _, n := range w.nodes {
		if !n.up || (n.m.flight != nil && n.m.flight.expects.seq < last) {
			return
		}
		switch {
		case n.file.tip().Last >= end.Last:
			have++
		case n.m.leads:
			return // it would not notice: it has asked its peers before
		}
	}
	if have < 2 {
		return
	}
	w.done.forgotten++
	w.log.groups = w.log.groups[:last-uint64(k)]
	for _, n := range w.nodes {
		n.cursor = min(n.cursor, w.log.last()+1)
	}
}

// lose takes all of LOG from all servers.
func (w *world) lose() {
	if w.log == nil {
		return
	}
	w.done.lost++
	w.log, w.leader, w.proposals, w.lostAt = nil, -1, 0, w.now
}

// found makes an empty LOG: only while all servers are there.
func (w *world) found(n *simNode) {
	for _, p := range w.nodes {
		if !p.up || p.paused > w.now || w.cut[n.self][p.self] || w.cut[p.self][n.self] {
			return
		}
	}
	if w.log == nil {
		w.logs++
		w.log = &simLog{id: fmt.Sprintf("log%d", w.logs), first: 1}
		w.flying = 0
		w.elect(w.random.IntN(simNodes))
	}
}

// trim takes old messages from LOG: mostly what all nodes have, sometimes more, never
// the last one.
func (w *world) trim() {
	if w.log == nil || w.leader < 0 || !w.nodes[w.leader].up || !w.nodes[w.leader].m.ready {
		return
	}
	up := w.nodes[w.leader].m.place.seq
	for _, n := range w.nodes {
		if n.up && n.m.place.log == w.log.id && w.random.IntN(3) > 0 {
			up = min(up, n.m.place.seq)
		}
	}
	if up > w.log.first {
		w.done.trimmed++
		w.log.first = min(up, w.log.last())
	}
}

// restored puts an old copy in the place of the file now and then. Whatever it lacks
// another node has.
func (n *simNode) restored() {
	w := n.w
	if w.random.IntN(3) > 0 || w.done.forgotten > 0 || w.log == nil || len(n.file.records) == 0 {
		return
	}
	for _, p := range w.nodes {
		if p != n && len(p.file.records) >= len(n.file.records) {
			kept := n.file.records[:w.random.IntN(len(n.file.records))]
			n.file = newFile()
			for _, r := range kept {
				n.file.add(r)
			}
			w.done.restored++
			return
		}
	}
}

func (n *simNode) start() {
	if n.up {
		return
	}
	n.life++
	n.up, n.paused, n.missing = true, 0, 0
	n.reads = map[uint64]func(bool){}
	n.waiting, n.staged, n.deciding, n.feeding, n.cursor = nil, nil, false, "", 0
	var peers []string
	for _, p := range n.w.nodes {
		if p != n {
			peers = append(peers, p.name)
		}
	}
	n.m = newMachine(n.name, peers, [8]byte{byte(n.self), byte(n.life >> 8), byte(n.life)}, n.file.tip())
	life := n.life
	n.every(life, 50*time.Millisecond, func() { n.event(tick{}) })
	n.every(life, 50*time.Millisecond, n.feed)
	n.every(life, 50*time.Millisecond, n.stage)
	n.every(life, 500*time.Millisecond, n.hear)
}

func (n *simNode) every(life int, period time.Duration, do func()) {
	n.w.after(time.Duration(n.w.random.Int64N(int64(period))), func() {
		if n.life != life || !n.up {
			return
		}
		if n.w.now >= n.paused {
			do()
		}
		n.every(life, period, do)
	})
}

func (n *simNode) crash() { n.up = false }

// later does something in this life of the node, when it is not paused.
func (n *simNode) later(d time.Duration, do func()) {
	life := n.life
	n.w.after(d, func() { n.alive(life, do) })
}

func (n *simNode) alive(life int, do func()) {
	switch {
	case !n.up || n.life != life:
	case n.w.now < n.paused:
		// What came meanwhile is read in any order.
		n.w.after(n.paused-n.w.now+time.Duration(n.w.random.IntN(100))*time.Millisecond, func() { n.alive(life, do) })
	default:
		do()
	}
}

// feed shows the node what LOG has, in order, perhaps again from earlier on.
func (n *simNode) feed() {
	w := n.w
	if w.log == nil || n.feeding != w.log.id || w.leader < 0 || w.cut[n.self][w.leader] || w.chance(200) {
		return
	}
	if w.chance(20) {
		n.cursor -= min(n.cursor-1, uint64(w.random.IntN(4)))
	}
	for {
		n.cursor = max(n.cursor, w.log.first)
		if n.m.place.log == n.feeding && n.m.place.seq >= n.cursor {
			n.cursor = n.m.place.seq + 1
		}
		if n.cursor > w.log.last() {
			return
		}
		before := n.m.place
		n.event(fed{place{n.feeding, n.cursor}, w.log.groups[n.cursor-1]})
		if n.m.place == before {
			return // it is fed again
		}
	}
}

// stage is the committer: it stages what waits and asks the machine.
func (n *simNode) stage() {
	if n.staged != nil || len(n.waiting) == 0 {
		return
	}
	k := min(len(n.waiting), 1+n.w.random.IntN(16))
	n.staged, n.waiting = n.waiting[:k:k], n.waiting[k:]
	b := bolt.Batch{After: n.file.tip()}
	heads, keys := n.file.heads, maps.Clone(n.file.keys)
	for i := range n.staged {
		p := &n.staged[i]
		c := p.command
		at := keys[c.key]
		switch {
		case at != 0 && c.key != 0:
			n.w.done.replayed++
			p.result = result{recorded, at}
		case heads[c.stream] < c.expect:
			// The leader's file is older than what the client knows: the answer would be
			// a lie. It may be taken back yet.
			p.result = result{conflict, 0}
		case heads[c.stream] != c.expect:
			p.result = result{conflict, heads[c.stream]}
		default:
			at = uint64(b.After.Last) + uint64(len(b.Records)) + 1
			b.Records = append(b.Records, c.record())
			heads[c.stream] = at
			if c.key != 0 {
				keys[c.key] = at
			}
			p.result = result{recorded, at}
		}
	}
	n.batch, n.deciding = b, true
	n.event(staged{b})
}

// decided is the committer's answer from the machine.
func (n *simNode) decided(d decide) {
	all := n.staged
	if all == nil || !n.deciding {
		n.w.fail("node %s decides, and nothing is staged", n.name)
		return
	}
	n.deciding = false
	if !d.commit {
		n.staged = nil
		for _, p := range all {
			r := result{outcome: refused}
			if d.doubt {
				r.outcome = unsure
			}
			p.reply(r)
		}
		return
	}
	n.later(n.w.delay(), func() {
		if n.file.tip() != n.batch.After {
			n.w.fail("node %s commits behind position %d a group that follows position %d", n.name, n.file.tip().Last, n.batch.After.Last)
		}
		for _, r := range n.batch.Records {
			n.file.add(r)
		}
		n.staged = nil
		for _, p := range all {
			if p.result == (result{conflict, 0}) {
				n.w.fail("command %d expects position %d of its stream and meets an older conflict", p.command.id, p.command.expect)
			}
			p.reply(p.result)
		}
		n.event(committed{n.file.tip()})
	})
}

func (n *simNode) clock() time.Duration { return n.w.now + n.ahead }

// event gives the machine an event and does what it asks for.
func (n *simNode) event(e event) {
	n.alive(n.life, func() {
		for _, x := range n.step(e) {
			n.effect(x)
		}
	})
}

func (n *simNode) peer(name string) *simNode { return n.w.nodes[int(name[0]-'A')] }

func (n *simNode) effect(x effect) {
	w := n.w
	switch x := x.(type) {
	case feed:
		n.feeding, n.cursor = x.log, 1
	case apply:
		if n.staged != nil && !n.deciding {
			w.fail("node %s applies while its committer commits", n.name)
		}
		n.later(w.delay(), func() { n.apply(x) })
	case publish:
		w.publish(&publication{n, x})
	case decide:
		n.decided(x)
	case ask:
		n.ask(x)
	case answer:
		if reply := w.asking[x.question]; reply != nil {
			delete(w.asking, x.question)
			reply(x.tip)
		}
	case copyFrom:
		n.copyFrom(x)
	case load:
		n.later(w.delay(), func() { n.event(loaded{n.file.batchAfter(x.after, 1+w.random.IntN(4))}) })
	case serve:
		if told := n.reads[x.read]; told != nil {
			delete(n.reads, x.read)
			told(x.refused)
		}
	case found:
		w.after(w.delay(), func() { w.found(n) })
	case stepDown:
		w.after(w.delay(), func() {
			if w.leader == n.self && !w.chance(200) {
				w.elect(w.random.IntN(simNodes))
			}
		})
	case stop:
		w.fail("node %s stops: %v", n.name, x.why)
	default:
		w.fail("no such effect: %T", x)
	}
}

func (n *simNode) apply(x apply) {
	end := x.group.End()
	tip, err := n.file.extend(x.group.Batch)
	if errors.As(err, new(*bolt.GapError)) && n.w.flaw.gapSkipped {
		for _, r := range x.group.Records {
			n.file.add(r)
		}
		tip, err = n.file.tip(), nil
	}
	n.event(applied{x.place, end, tip, err})
	n.later(0, n.feed)
}

func (n *simNode) ask(x ask) {
	w, p := n.w, n.peer(x.peer)
	w.lastID++
	q := w.lastID
	failed := once(func() { n.event(answered{x.peer, x.term, nil}) })
	if !p.up && w.random.IntN(2) == 0 {
		n.later(w.delay(), failed) // the connection is refused
		return
	}
	w.asking[q] = func(tip *bolt.Tip) {
		w.net(p.self, n.self, func() { n.event(answered{x.peer, x.term, tip}) })
	}
	w.net(n.self, p.self, func() { p.event(asked{q, x.log}) })
}

func (n *simNode) copyFrom(x copyFrom) {
	w, p, after, over := n.w, n.peer(x.peer), n.file.tip().Last, false
	end := func(e copied) {
		if !over {
			over = true
			n.event(e)
		}
	}
	w.net(n.self, p.self, func() {
		p.later(0, func() {
			if (x.ready && !p.m.ready) || after > p.file.tip().Last {
				return
			}
			w.done.copied++
			b := p.file.batchAfter(after, 1000)
			w.net(p.self, n.self, func() {
				n.later(0, func() {
					if !over {
						tip, err := n.file.extend(b)
						end(copied{x.peer, tip, err})
					}
				})
			})
		})
	})
	n.later(1500*time.Millisecond+4*w.lag, func() { end(copied{x.peer, bolt.Tip{}, errors.New("no answer")}) })
}

// publish is JetStream: it says accepted, or anything else, or nothing.
func (w *world) publish(p *publication) {
	n, log := p.node, w.log
	if log != nil && w.chance(30) {
		w.late = append(w.late, p)
	}
	gone := once(func() { n.event(unknown{p.group.Nonce}) })
	n.later(time.Second, gone)
	if log == nil || w.leader < 0 || w.cut[n.self][w.leader] || !w.nodes[w.leader].up || w.chance(10) {
		return
	}
	w.flying++
	landed := once(func() {
		if w.log == log {
			w.flying--
		}
	})
	w.after(8*time.Second, landed)
	leader := w.leader
	w.after(w.delay(), func() {
		if w.log != log || !w.takes(p) || log.last()+uint64(w.proposals) != p.seq {
			landed()
			w.net(leader, n.self, gone) // no responders, or the wrong last sequence, counting proposals
			return
		}
		w.proposals++
		over := once(func() { w.proposals = max(0, w.proposals-1) })
		if w.chance(60) {
			landed()
			w.after(time.Duration(w.random.IntN(3000))*time.Millisecond, over) // it is never committed
			if w.random.IntN(2) == 0 {
				w.net(leader, n.self, gone)
			}
			return
		}
		w.after(w.delay(), func() {
			landed()
			over()
			if w.log != log || !w.accept(p) {
				return
			}
			if w.chance(100) {
				w.net(leader, n.self, gone) // 503, after all
				return
			}
			ack := func() { n.event(accepted{p.group.Nonce, p.seq + 1}) }
			if w.chance(150) {
				w.after(time.Duration(w.random.IntN(5000))*time.Millisecond, ack)
				return
			}
			w.net(leader, n.self, ack)
		})
	})
}

// takes reports whether the subject of a publication is LOG's.
func (w *world) takes(p *publication) bool {
	return p.log == w.log.id || w.flaw.anyIncarnation
}

// accept gives a publication the next slot, if that is the one that it expects.
func (w *world) accept(p *publication) bool {
	if w.log.last() != p.seq {
		return false
	}
	kept := *p.group
	w.log.groups = append(w.log.groups, &kept)
	for _, n := range w.nodes {
		n.later(w.delay(), n.feed)
	}
	// What was on its way for long may come at the worst moment.
	for i, late := range w.late {
		if late.log != w.log.id && late.seq == w.log.last() {
			w.late = slices.Delete(w.late, i, i+1)
			if w.done.late++; w.takes(late) {
				w.accept(late)
			}
			break
		}
	}
	return true
}
