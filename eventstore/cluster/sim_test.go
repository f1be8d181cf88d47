package cluster

import (
	"cmp"
	"container/heap"
	"encoding/binary"
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
// decided once, and any answer may be late, lost or a mistake.

const (
	simNodes   = 3
	simStreams = 4
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

	demanded int // reads and commands that have to succeed

	log       []*bolt.Group // LOG's groups, by number from 1
	truth     file          // what they make
	leader    int
	proposals int // that the leader has taken and LOG does not have
	flying    int // publications on their way
	nodes     []*simNode
	cut       [simNodes][simNodes]bool
	shunned   int // few clients ask this node
	fool      int // this node is mad now and then
	mad       int // this node says that it has more than it has, and gives groups that do not follow
	strays    int // files that were given groups which LOG never had

	commands map[uint64]*command
	reads    map[uint64]*simRead
	lastID   uint64
	acked    uint64 // the greatest position that a client was told
	heads    [simStreams]uint64
	done     struct{ ok, conflicts, unknown, reads, refusedReads, takeovers, forgotten, fetched, strayed, stopped, restored, told int }
}

// flaw is a mistake that the simulation has to notice.
type flaw struct {
	refusedByError bool // a publication that failed is taken for one that did not happen
	lateRiders     bool // a barrier serves reads that came after it was published
	noBarrier      bool // reads are answered from what the sequencer's file has
	staleRefusals  bool // refusals alone are answered without asking LOG
	chained        bool // a group is taken for accepted when it was published
	twoInFlight    bool // while the outcome of one slot is unknown, the next one is published
	unlooked       bool // a longer file is published again although LOG went on without it
	peersAsLOG     bool // a group of a peer's file is taken for one of LOG
	claimsAsLOG    bool // what a peer says that it has is taken for what LOG has
	endOnly        bool // ids are recognised only at the end of a stream
	onePeer        bool // one peer's answer is enough for a read
	oldAnswers     bool // so is one that was given to an older question
	bareNumber     bool // a node's answer leaves out what its file shows and its machine has not heard of
	staleAnswer    bool // a node whose file may be an old copy answers
}

// step is the machine's, with the flaw.
func (n *simNode) step(e event) (out []effect) {
	f, s := n.w.flaw, &n.node.sequencer
	switch e := e.(type) {
	case unknown:
		if s.flight == nil || s.flight.landed || s.flight.group.Nonce != e.nonce {
			break
		}
		if n.skips = f.twoInFlight; f.twoInFlight || f.refusedByError {
			out = s.takeBack()
		}
	case asked:
		switch {
		case f.noBarrier && s.leading:
			return []effect{answer{e.from, e.question, n.node.follower.number}}
		case f.lateRiders && s.flight != nil:
			s.flight.riders = append(s.flight.riders, e)
			return nil
		}
	case fetched:
		if f.peersAsLOG {
			return n.step(fed{e.group})
		}
	case told:
		switch q := &n.node.forwarder; {
		case f.onePeer:
			q.peers = []nodeName{e.from}
		case f.oldAnswers:
			e.question = q.question
		}
		return n.node.step(n.clock(), e)
	case asksShown:
		switch {
		case f.bareNumber && n.node.forwarder.current:
			return []effect{tellShown{e.from, e.question, n.node.follower.number}}
		case f.staleAnswer && !n.node.stopped:
			n.node.forwarder.current = true
		}
	case status:
		if f.claimsAsLOG {
			n.node.follower.last = max(n.node.follower.last, e.number)
			n.node.follower.shown = n.node.follower.last
		}
	case staged:
		if f.staleRefusals && s.leading && s.ready && len(e.group.Records) == 0 {
			return []effect{decide(e)}
		}
	}
	out = append(out, n.node.step(n.clock(), e)...)
	for _, x := range out {
		if p, ok := x.(publish); ok && n.skips {
			n.skips = false
			p.group.Number++
		}
	}
	if f.chained && s.flight != nil && !s.flight.landed {
		out = append(out, s.land(n.clock())...)
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

// A record of the simulation is a command's id and its stream.
type command struct {
	id     uint64
	stream int
	expect uint64
	node   int
	told   func(result)

	finished bool
	position uint64
	refused  bool
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

type simRead struct {
	node int
	need uint64 // the position that it must see
}

// file is the model of bolt's.
type file struct {
	records []uint64 // command<<8 | stream
	heads   [simStreams]uint64
	ids     map[uint64]uint64
	number  uint64 // of the last group with records
	groups  map[uint64]*bolt.Group
}

// sum stands for that of the record at a position.
func (f *file) sum(at eventstore.Position) (sum [32]byte) {
	if at > 0 {
		binary.BigEndian.PutUint64(sum[:], f.records[at-1])
	}
	return sum
}

func (f *file) end() (eventstore.Position, [32]byte) {
	last := eventstore.Position(len(f.records))
	return last + 1, f.sum(last)
}

func (f *file) follows(g *bolt.Group) bool {
	first, before := f.end()
	return g.First == first && g.Before == before
}

// differs reports whether the file has another group of that number.
func (f *file) differs(g *bolt.Group) bool {
	own := f.groups[g.Number]
	switch {
	case own != nil:
		return own.Nonce != g.Nonce
	case len(g.Records) > 0:
		return true
	}
	end := eventstore.Position(1)
	for _, own := range f.groups {
		if own.Number < g.Number {
			end = max(end, own.First+eventstore.Position(len(own.Records)))
		}
	}
	return g.First > 0 && (g.First != end || f.sum(g.First-1) != g.Before)
}

func (f *file) add(g *bolt.Group) bool {
	if !f.follows(g) {
		return false
	}
	for _, b := range g.Records {
		r := binary.BigEndian.Uint64(b)
		f.records = append(f.records, r)
		f.heads[r&0xff] = uint64(len(f.records))
		f.ids[r>>8] = uint64(len(f.records))
	}
	f.number, f.groups[g.Number] = g.Number, g
	return true
}

type simNode struct {
	w       *world
	self    int
	name    nodeName
	file    file
	node    *node
	up      bool
	life    int
	paused  time.Duration
	ahead   time.Duration // the node's clock
	cursor  int           // how many of LOG's groups the feed has shown
	waiting []pendingCommit
	staged  []pendingCommit
	group   *bolt.Group
	calls   map[uint64]*command
	skips   bool // of twoInFlight
	stray   bool // the file was given groups that LOG never had
}

type pendingCommit struct {
	command *command
	reply   func(result)
	result  result
}

func newWorld(seed uint64, f flaw) *world {
	w := &world{
		random: rand.New(rand.NewPCG(seed, 17)), flaw: f, commands: map[uint64]*command{}, reads: map[uint64]*simRead{},
		truth: newFile(), mad: -1,
	}
	base := &bolt.Group{Number: 1, Nonce: bolt.Nonce{1}}
	w.log = append(w.log, base)
	for i := range simNodes {
		n := &simNode{w: w, self: i, name: nodeName(rune('A' + i)), file: newFile()}
		n.file.number = 1
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		n.start()
	}
	w.fool = w.random.IntN(simNodes)
	w.elect(w.random.IntN(simNodes))
	for range 5 {
		w.client()
	}
	w.after(0, w.fault)
	return w
}

func newFile() file { return file{ids: map[uint64]uint64{}, groups: map[uint64]*bolt.Group{}} }

// run plays so long with faults, then heals everything and looks at what is left.
func (w *world) run(d time.Duration) {
	w.until(d)
	w.calm, w.mad = true, -1
	w.cut = [simNodes][simNodes]bool{}
	for _, n := range w.nodes {
		n.paused = 0
		switch {
		case n.stray: // whether LOG goes on without its groups is open until the next one
			n.crash()
			n.rebuilt()
		case !n.up:
			n.start()
		}
	}
	w.elect(w.random.IntN(simNodes))
	w.until(d + 10*time.Second)
	if w.flaw == (flaw{}) || w.flaw.claimsAsLOG {
		w.demand()
	}
	w.until(d + 15*time.Second)
	if w.wrong == "" && w.demanded > 0 {
		w.fail("%d reads and commands are not answered although nothing goes wrong any more", w.demanded)
	}
	w.audit()
}

// demand sends a read and a command to each node, which have to succeed.
func (w *world) demand() {
	for _, n := range w.nodes {
		w.lastID += 2
		read, id := w.lastID-1, w.lastID
		w.demanded += 2
		refused := w.done.refusedReads
		w.reads[read] = &simRead{node: n.self, need: w.acked}
		n.onServed(read, func() {
			w.demanded--
			if w.done.refusedReads > refused {
				w.fail("node %s refuses a read although nothing goes wrong any more", n.name)
			}
		})
		n.event(reading{read})
		c := &command{id: id, stream: n.self, expect: w.truth.heads[n.self], node: n.self}
		c.told = func(r result) {
			w.demanded--
			if c.position = r.position; r.outcome == unsure {
				w.fail("node %s cannot say what became of a command although nothing goes wrong any more", n.name)
			}
		}
		w.commands[id], n.calls[id] = c, c
		n.event(calling{id})
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
	for _, n := range w.nodes {
		if !slices.Equal(n.file.records, w.truth.records) {
			w.fail("node %s has %d records, LOG made %d", n.name, len(n.file.records), len(w.truth.records))
		}
	}
	seen := map[uint64]uint64{}
	for i, r := range w.truth.records {
		id := r >> 8
		if seen[id] != 0 {
			w.fail("command %d is at %d and at %d", id, seen[id], i+1)
		}
		seen[id] = uint64(i + 1)
	}
	for _, id := range slices.Sorted(maps.Keys(w.commands)) {
		c := w.commands[id]
		if c.position != 0 && seen[id] != c.position {
			w.fail("command %d was answered with position %d and is at %d", id, c.position, seen[id])
		}
		if c.refused && seen[id] != 0 {
			w.fail("command %d was refused and is at %d", id, seen[id])
		}
	}
}

// client sends one command or read after the other, each to any node.
func (w *world) client() {
	n := w.nodes[w.random.IntN(simNodes)]
	if n.self == w.shunned && w.random.IntN(10) > 0 {
		n = w.nodes[(n.self+1+w.random.IntN(simNodes-1))%simNodes]
	}
	again := sync1(func() { w.after(time.Duration(w.random.IntN(60))*time.Millisecond, w.client) })
	if w.calm {
		return
	}
	w.lastID++
	id := w.lastID
	if !n.up {
		again()
		return
	}
	w.after(11*time.Second, again) // the node may have crashed
	if w.random.IntN(10) < 4 {
		w.reads[id] = &simRead{node: n.self, need: w.acked}
		n.onServed(id, again)
		n.event(reading{id})
		return
	}
	stream := w.random.IntN(simStreams)
	c := &command{id: id, stream: stream, expect: w.heads[stream], node: n.self}
	w.commands[id] = c
	c.told = func(r result) {
		if c.finished {
			return
		}
		c.finished = true
		switch r.outcome {
		case recorded:
			w.done.ok++
			c.position = r.position
			w.acked, w.heads[stream] = max(w.acked, r.position), max(w.heads[stream], r.position)
		case conflict:
			w.done.conflicts++
			c.refused = true
			if w.truth.heads[stream] == c.expect {
				w.fail("command %d expects position %d of its stream, where it was, and met a conflict", id, c.expect)
			}
		case refused:
			c.refused = true
		case unsure:
			w.done.unknown++
		}
		again()
	}
	n.calls[id] = c
	n.event(calling{id})
}

func sync1(f func()) func() {
	done := false
	return func() {
		if !done {
			done = true
			f()
		}
	}
}

// fault lets something go wrong from time to time.
func (w *world) fault() {
	if w.calm || w.quiet {
		return
	}
	w.after(time.Duration(200+w.random.IntN(2200))*time.Millisecond, w.fault)
	n := w.nodes[w.random.IntN(simNodes)]
	if w.random.IntN(3) == 0 {
		n = w.nodes[w.leader]
	}
	other := w.random.IntN(simNodes)
	w.shunned = w.random.IntN(simNodes + 1)
	w.mad = -1
	what := w.random.IntN(13)
	if w.flaw.unlooked && what < 6 {
		what = 12 // it is rare that this leads to anything
	}
	switch what {
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
		to := w.nodes[(w.leader+1+w.random.IntN(simNodes-1))%simNodes].name
		w.nodes[w.leader].event(leaves{to})
	case 11:
		w.mad = w.fool
	case 12:
		if n.up && w.strays == 0 {
			n.crash()
			w.replace(n.self)
			n.strayed()
			w.after(time.Duration(w.random.IntN(4000))*time.Millisecond, n.start)
		}
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
	w.leader, w.proposals = leader, 0
	w.done.takeovers++
	for _, n := range w.nodes {
		w.after(w.delay()+time.Duration(w.random.IntN(800))*time.Millisecond, func() {
			if n.up && !w.cut[n.self][w.leader] && w.now >= n.paused {
				n.hear()
			}
		})
	}
}

// hear tells the node who leads.
func (n *simNode) hear() {
	n.event(leads{n.w.leader == n.self})
	n.event(sequencing{n.w.nodes[n.w.leader].name})
	n.event(ended{uint64(len(n.w.log))})
}

// forget takes an acknowledged tail from LOG, which it must not do, and which two
// files have.
func (w *world) forget() {
	k := 1 + w.random.IntN(3)
	last := len(w.log)
	if last <= k+1 || w.flying > 0 || w.proposals > 0 {
		return
	}
	have := 0
	for _, n := range w.nodes {
		if !n.up {
			return
		}
		if f := n.node.sequencer.flight; f != nil && f.group.Number <= uint64(last) {
			return
		}
		switch {
		case n.node.follower.number >= uint64(last):
			have++
		case n.node.sequencer.leading:
			return // it would not notice: it has asked its peers before
		}
	}
	if have < 2 {
		return
	}
	// A file does not have groups without records after a crash.
	for _, g := range w.log[last-k:] {
		if len(g.Records) == 0 {
			return
		}
	}
	w.done.forgotten++
	w.log = w.log[:last-k]
	for _, n := range w.nodes {
		n.cursor = min(n.cursor, len(w.log))
	}
}

// strayed gives the file groups that LOG never had, or had and forgot before anybody else
// had them. If LOG goes on without them, the node has to stop.
func (n *simNode) strayed() {
	w := n.w
	n.stray = true
	w.strays++
	w.done.strayed++
	number := max(n.file.number, uint64(len(n.node.follower.ahead))) + 1
	for range 1 + w.random.IntN(3) {
		w.lastID++
		g := &bolt.Group{Number: number, Nonce: bolt.Nonce{0xee, byte(w.lastID >> 8), byte(w.lastID)}}
		g.First, g.Before = n.file.end()
		g.Records = [][]byte{binary.BigEndian.AppendUint64(nil, w.lastID<<8|uint64(w.random.IntN(simStreams)))}
		n.file.add(g)
		number += 1 + uint64(w.random.IntN(2))
	}
}

// restored puts an old copy in the place of the file now and then. Whatever it lacks LOG has.
func (n *simNode) restored() {
	w := n.w
	if n.stray || n.file.number > uint64(len(w.log)) || w.random.IntN(3) > 0 {
		return
	}
	upTo := n.file.number - min(n.file.number-1, uint64(w.random.IntN(4)))
	n.file = newFile()
	n.file.number = 1
	for _, g := range w.log[:upTo] {
		if len(g.Records) > 0 {
			n.file.add(g)
		}
	}
	w.done.restored++
}

// diverges reports whether LOG has another group in the place of one of the file's.
func (n *simNode) diverges() bool {
	for _, g := range n.file.groups {
		if int(g.Number) <= len(n.w.log) && n.w.log[g.Number-1].Nonce != g.Nonce {
			return true
		}
	}
	return false
}

// rebuilt makes the file of a node that has stopped anew from LOG.
func (n *simNode) rebuilt() {
	n.stray = false
	n.w.strays--
	n.file = newFile()
	n.file.number = 1
	for _, g := range n.w.log {
		if len(g.Records) > 0 {
			n.file.add(g)
		}
	}
	n.start()
}

func (n *simNode) start() {
	if n.up {
		return
	}
	n.life++
	n.up, n.paused = true, 0
	n.calls = map[uint64]*command{}
	n.waiting, n.staged, n.group = nil, nil, nil
	n.cursor = min(int(n.file.number)-1, len(n.w.log))
	peers := without([]nodeName{"A", "B", "C"}, func(p nodeName) bool { return p == n.name })
	n.node = newNode(n.name, peers, [8]byte{byte(n.self), byte(n.life >> 8), byte(n.life)}, n.file.number)
	life := n.life
	n.every(life, 100*time.Millisecond, func() { n.event(tick{}) })
	n.every(life, 100*time.Millisecond, n.feed)
	n.every(life, 50*time.Millisecond, n.stage)
	n.every(life, time.Second, func() {
		if !n.w.cut[n.self][n.w.leader] {
			n.hear()
		}
	})
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

func (n *simNode) crash() { n.up, n.calls = false, nil }

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

// feed shows the node what LOG has, in order, perhaps twice, rarely with a gap.
func (n *simNode) feed() {
	if n.w.cut[n.self][n.w.leader] || n.w.chance(200) {
		return
	}
	for n.cursor < len(n.w.log) {
		g := n.w.log[n.cursor]
		n.cursor++
		if n.w.chance(3) {
			continue
		}
		n.event(fed{g})
		if n.w.chance(10) {
			n.event(fed{g})
		}
	}
}

// stage is the committer: it stages what waits and asks the machine.
func (n *simNode) stage() {
	if n.staged != nil || len(n.waiting) == 0 || n.node.follower.busy {
		return
	}
	k := min(len(n.waiting), 1+n.w.random.IntN(4))
	n.staged, n.waiting = n.waiting[:k:k], n.waiting[k:]
	g := &bolt.Group{}
	g.First, g.Before = n.file.end()
	heads, ids := n.file.heads, map[uint64]uint64{}
	for i := range n.staged {
		p := &n.staged[i]
		c := p.command
		at := max(n.file.ids[c.id], ids[c.id])
		if n.w.flaw.endOnly && at != heads[c.stream] {
			at = 0
		}
		switch {
		case at != 0:
			p.result = result{recorded, at}
		case heads[c.stream] != c.expect:
			p.result = result{outcome: conflict}
		default:
			at = uint64(g.First) + uint64(len(g.Records))
			g.Records = append(g.Records, binary.BigEndian.AppendUint64(nil, c.id<<8|uint64(c.stream)))
			heads[c.stream], ids[c.id] = at, at
			p.result = result{recorded, at}
		}
	}
	n.group = g
	n.event(staged{g})
}

// decided is the committer's answer from the machine.
func (n *simNode) decided(g *bolt.Group) {
	all := n.staged
	if all == nil {
		n.w.fail("node %s decides, and nothing is staged", n.name)
		return
	}
	if g == nil || g.Number == 0 {
		n.staged = nil
		for _, p := range all {
			switch {
			case g != nil:
				p.reply(p.result) // staleRefusals
			case n.w.flaw.refusedByError:
				p.reply(result{outcome: refused})
			default:
				p.reply(result{outcome: unsure})
			}
		}
		return
	}
	n.later(n.w.delay(), func() {
		if len(g.Records) > 0 && !n.file.add(g) {
			n.w.fail("node %s commits group %d in the wrong place", n.name, g.Number)
		}
		n.heard(func() {
			n.staged = nil
			n.event(committed{})
			for _, p := range all {
				p.reply(p.result)
			}
		})
	})
}

// heard is what follows once the file has a group: its reads may show that before.
func (n *simNode) heard(do func()) {
	d := time.Duration(n.w.random.IntN(2000)) * time.Microsecond
	if n.w.chance(100) {
		d *= 100
	}
	n.later(d, do)
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

func (n *simNode) index(name nodeName) int { return int(name[0] - 'A') }

func (n *simNode) effect(x effect) {
	w := n.w
	switch x := x.(type) {
	case publish:
		if x.group.First == 0 {
			x.group.First, x.group.Before = n.file.end()
		}
		w.publish(n, x.group)
	case republish:
		n.republish(x)
	case look:
		number := uint64(len(w.log))
		if w.chance(100) {
			number -= uint64(w.random.IntN(2)) // old news
		}
		w.net(n.self, w.leader, func() { n.later(w.delay(), func() { n.event(ended{number}) }) })
	case decide:
		n.decided(x.group)
	case apply:
		if n.staged != nil {
			w.fail("node %s applies while its committer has staged", n.name)
		}
		n.later(w.delay(), func() {
			if !n.file.add(x.group) {
				n.event(misfit{fmt.Errorf("group %d does not follow", x.group.Number)})
				return
			}
			n.heard(func() { n.event(applied{}) })
		})
	case compare:
		if n.file.differs(x.group) {
			n.event(mismatched{fmt.Errorf("group %d is another one in LOG", x.group.Number)})
			return
		}
		n.event(matched{})
	case compareEnd:
		if x.number > 0 && int(x.number) <= len(w.log) {
			n.effect(compare{w.log[x.number-1]})
		}
	case bridge:
		if n.file.follows(x.group) {
			n.event(bridged{x.group.Number})
		}
	case doubt: // the operator is told
	case fetch:
		n.fetch(x)
	case askStatus:
		for _, p := range w.nodes {
			if p != n {
				w.net(n.self, p.self, func() {
					p.later(0, func() {
						s := status{p.name, x.term, p.node.follower.number}
						switch {
						case p.node.stopped:
							s.number = 0
						case w.mad == p.self:
							s.number += 1 + uint64(w.random.IntN(1_000_000))
						}
						w.net(p.self, n.self, func() { n.event(s) })
					})
				})
			}
		}
	case ask:
		w.net(n.self, n.index(x.to), func() { w.nodes[n.index(x.to)].event(asked{n.name, x.question}) })
	case answer:
		w.net(n.self, n.index(x.to), func() { w.nodes[n.index(x.to)].event(answered{x.question, x.number}) })
	case askShown:
		for _, p := range w.nodes {
			if p != n {
				w.net(n.self, p.self, func() { p.event(asksShown{n.name, x.question}) })
			}
		}
	case tellShown:
		w.done.told++
		if w.mad == n.self {
			x.number += 1 + uint64(w.random.IntN(1_000))
		}
		deliver := func() { w.nodes[n.index(x.to)].event(told{n.name, x.question, x.number}) }
		if w.flaw.oldAnswers && w.random.IntN(3) == 0 {
			w.after(time.Duration(w.random.IntN(1000))*time.Millisecond, deliver) // else few are old
		}
		w.net(n.self, n.index(x.to), deliver)
	case serve:
		n.served(x)
	case send:
		n.send(x)
	case giveUp:
		if c := n.calls[x.call]; c != nil {
			delete(n.calls, x.call)
			c.told(result{outcome: unsure})
		}
	case stepDown:
		next := w.random.IntN(simNodes)
		if x.to != "" && !w.chance(200) {
			next = n.index(x.to)
		}
		w.after(w.delay(), func() {
			if w.leader == n.self {
				w.elect(next)
			}
			if x.to != "" {
				n.event(asksNoMore{})
			}
		})
	case stop:
		if !n.stray || !n.diverges() {
			w.fail("node %s stops: %v", n.name, x.why)
			return
		}
		w.done.stopped++
		n.later(time.Duration(w.random.IntN(5000))*time.Millisecond, func() {
			if n.node.stopped {
				n.crash()
				n.rebuilt()
			}
		})
	default:
		w.fail("no such effect: %T", x)
	}
}

func (n *simNode) fetch(x fetch) {
	w := n.w
	to := w.nodes[(n.self+1+w.random.IntN(simNodes-1))%simNodes]
	if to.name == x.not {
		to = w.nodes[simNodes-n.self-to.self]
	}
	w.net(n.self, to.self, func() {
		to.later(0, func() {
			for i := x.number; i <= to.node.follower.number; i++ {
				g := to.gives(i)
				if g == nil {
					return
				}
				w.done.fetched++
				w.net(to.self, n.self, func() { n.event(fetched{g, to.name}) })
			}
		})
	})
}

// gives is a group as the node gives it to others; nil: it does not.
func (n *simNode) gives(number uint64) *bolt.Group {
	g := n.file.groups[number]
	switch {
	case n.node.stopped, number > n.node.follower.number, !n.node.follower.sure:
		return nil
	case g == nil:
		return &bolt.Group{Number: number}
	case n.w.mad == n.self:
		wrong := *g
		wrong.Before[31]++
		return &wrong
	}
	return g
}

func (n *simNode) republish(x republish) {
	w := n.w
	again := func(g *bolt.Group) {
		if len(g.Records) == 0 {
			g = &bolt.Group{Number: x.number, Nonce: bolt.Nonce{0xff, byte(w.random.Uint32()), byte(w.random.Uint32())}}
		}
		w.publish(n, g)
		n.later(20*time.Millisecond, func() { n.effect(look{}) })
	}
	if x.from == "" {
		if last := int(x.number) - 2; !w.flaw.unlooked && last >= 0 && last < len(w.log) && n.file.differs(w.log[last]) {
			n.event(mismatched{fmt.Errorf("LOG ends with another group %d", x.number-1)})
			return
		}
		again(cmp.Or(n.file.groups[x.number], &bolt.Group{}))
		return
	}
	p := w.nodes[n.index(x.from)]
	w.net(n.self, p.self, func() {
		p.later(0, func() {
			if g := p.gives(x.number); g != nil {
				w.net(p.self, n.self, func() {
					n.later(0, func() {
						if len(g.Records) == 0 || w.flaw.unlooked || n.file.follows(g) {
							again(g)
						}
					})
				})
			}
		})
	})
}

func (n *simNode) send(x send) {
	w, c := n.w, n.calls[x.call]
	to := w.nodes[n.index(x.to)]
	if c == nil {
		return
	}
	first := sync1(func() { n.event(lost{x.call}) })
	n.later(time.Second, first)
	w.net(n.self, to.self, func() {
		to.later(0, func() {
			to.later(time.Duration(w.random.IntN(3000))*time.Microsecond, to.stage)
			to.waiting = append(to.waiting, pendingCommit{command: c, reply: func(r result) {
				w.net(to.self, n.self, func() {
					n.alive(n.life, func() {
						if r.outcome == unsure {
							first()
							return
						}
						if n.calls[x.call] == c {
							delete(n.calls, x.call)
							n.event(replied{x.call})
							c.told(r)
						}
					})
				})
			}})
		})
	})
}

func (n *simNode) onServed(id uint64, again func()) {
	n.w.commands[id] = &command{id: id, told: func(result) { again() }}
}

func (n *simNode) served(x serve) {
	w, r := n.w, n.w.reads[x.read]
	if r == nil {
		return
	}
	delete(w.reads, x.read)
	switch {
	case x.failed:
		w.done.refusedReads++
	case uint64(len(n.file.records)) < r.need:
		w.fail("a read on node %s sees %d records, %d were acknowledged before it", n.name, len(n.file.records), r.need)
	default:
		w.done.reads++
		// From here on somebody knows of these records.
		w.acked = max(w.acked, uint64(len(n.file.records)))
		for i, p := range n.file.heads {
			w.heads[i] = max(w.heads[i], p)
		}
	}
	w.commands[x.read].told(result{})
}

// publish is JetStream: it says accepted, or anything else, or nothing.
func (w *world) publish(n *simNode, g *bolt.Group) {
	kept := *g // the bytes of this moment
	w.flying++
	landed := sync1(func() { w.flying-- })
	gone := sync1(func() { n.event(unknown{kept.Nonce}) })
	n.later(time.Second, gone)
	w.after(8*time.Second, landed)
	if w.cut[n.self][w.leader] || w.chance(10) {
		landed()
		return
	}
	w.after(w.delay(), func() {
		if uint64(len(w.log)+w.proposals) != kept.Number-1 {
			landed()
			w.net(w.leader, n.self, gone) // the wrong last sequence, counting proposals
			return
		}
		w.proposals++
		leader := w.leader
		over := sync1(func() { w.proposals = max(0, w.proposals-1) })
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
			if uint64(len(w.log)) != kept.Number-1 {
				return
			}
			w.log = append(w.log, &kept)
			for _, n := range w.nodes {
				n.later(w.delay(), n.feed)
			}
			if len(kept.Records) > 0 && kept.Number > w.truth.number && !w.truth.add(&kept) {
				w.fail("LOG's group %d does not follow from those before it", kept.Number)
			}
			if w.chance(100) {
				w.net(leader, n.self, gone) // 503, after all
				return
			}
			ack := func() { n.event(accepted{kept.Nonce, kept.Number}) }
			if w.chance(150) {
				w.after(time.Duration(w.random.IntN(5000))*time.Millisecond, ack)
				return
			}
			w.net(leader, n.self, ack)
		})
	})
}
