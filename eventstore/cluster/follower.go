package cluster

import (
	"maps"
	"math"
	"time"

	"payledger/eventstore/bolt"
)

const (
	// gapTime is how long a group may be missing before it is fetched from a peer.
	gapTime = 200 * time.Millisecond
	// silence is how long the feed may bring nothing before a peer is asked.
	silence = 3 * time.Second
	// patience is how long a node tries to get what LOG or a peer says is there.
	patience = 2 * time.Second
	// maxAhead bounds the groups that wait for one before them, LOG's first one apart.
	maxAhead = 256
)

// follower applies LOG's groups to the own file in their order, one at a time. It
// skips none: a group that stays missing comes from a peer's file.
type follower struct {
	number uint64 // of the last group that the file has; one without records costs no transaction
	last   uint64 // the last number that LOG is known to have
	shown  uint64 // the last one that LOG has shown; what it only spoke of it may have forgotten
	busy   bool   // a group is being applied, or staged or committed by the own committer
	ahead  map[uint64]received
	now    received // what is being applied
	sure   bool     // LOG has shown since the start that the file is of its history

	heard time.Duration // when LOG showed anything last
	since time.Duration // when the next group was found missing; 0: it is not
	asked time.Duration // when it was fetched last
	wrong nodeName      // the peer whose group, in the place of the next one, does not follow
}

// received is a group and its source: a peer, or LOG (empty).
type received struct {
	group *bolt.Group
	from  nodeName
}

// fed takes a group of LOG, whose word counts, or of a peer's file, which may hold what
// LOG does not: that is taken only where LOG has a group and does not show it.
func (f *follower) fed(now time.Duration, c received) []effect {
	g := c.group
	if c.from == "" {
		f.heard, f.shown, f.last = now, max(f.shown, g.Number), max(f.last, g.Number)
	}
	switch {
	case g.Number <= f.number && c.from == "":
		return []effect{compare{g}}
	case g.Number <= f.number, g.Number > f.number+maxAhead && (c.from != "" || g.Number > f.lowest()):
	case c.from != "" && (g.Number > f.last || f.ahead[g.Number].group != nil):
	default:
		if f.ahead == nil {
			f.ahead = make(map[uint64]received)
		}
		f.ahead[g.Number] = c
	}
	return nil
}

// lowest is the number of LOG's lowest group that waits, however far behind the file: those
// in between may have had no records, which no file remembers, and LOG have been trimmed
// of them (bridge).
func (f *follower) lowest() uint64 {
	lowest := uint64(math.MaxUint64)
	for n, c := range f.ahead {
		if c.from == "" {
			lowest = min(lowest, n)
		}
	}
	return lowest
}

// next applies the next group if it is there.
func (f *follower) next() (out []effect) {
	for !f.busy {
		c := f.ahead[f.number+1]
		if c.group == nil {
			return out
		}
		f.now = c
		if c.group.End {
			f.busy = true
			return append(out, conclude{c.group})
		}
		if len(c.group.Records) > 0 {
			f.busy = true
			return append(out, apply{c.group})
		}
		out = append(out, f.done()...)
	}
	return out
}

// done: the file has the next group. If it came from a peer and LOG has shown it
// meanwhile, they are compared.
func (f *follower) done() (out []effect) {
	f.number++
	if c := f.ahead[f.number]; f.now.from != "" && c.from == "" && c.group != nil {
		out = append(out, compare{c.group})
	}
	delete(f.ahead, f.number)
	switch g := f.now.group; {
	case f.sure || f.now.from != "" || g == nil:
	case len(g.Records) > 0:
		f.sure = true
	default:
		out = append(out, compare{g})
	}
	f.busy, f.since, f.last, f.wrong, f.now = false, 0, max(f.last, f.number), "", received{}
	return out
}

// misfit: the group that was to be applied does not follow from the file. If LOG says so,
// or both peers do, the file is wrong, and no peer is named. Else that peer is, and its
// groups are dropped.
func (f *follower) misfit() (peer nodeName) {
	peer = f.now.from
	if peer == "" || (f.wrong != "" && f.wrong != peer) {
		return ""
	}
	f.busy, f.now, f.wrong = false, received{}, peer
	maps.DeleteFunc(f.ahead, func(_ uint64, c received) bool { return c.from == peer })
	return peer
}

// bridged: what the file has is what the group of this number follows, so that none in
// between has records.
func (f *follower) bridged(number uint64) {
	if !f.busy && number > f.number && f.ahead[number].group != nil {
		f.number = number - 1
		maps.DeleteFunc(f.ahead, func(n uint64, _ received) bool { return n < number })
	}
}

// behind reports whether LOG has groups that the file does not have.
func (f *follower) behind() bool { return f.last > f.number }

func (f *follower) tick(now time.Duration) (out []effect) {
	missing := f.behind() && !f.busy && f.ahead[f.number+1].group == nil
	switch {
	case !missing:
		f.since, f.asked = 0, now
	case f.since == 0:
		f.since, f.asked = now, now
	case now-f.since >= patience && f.last > max(f.shown, f.number):
		f.last, f.since = max(f.shown, f.number), 0 // no peer has it
	}
	if (missing && now-f.asked >= gapTime) || now-f.heard >= silence {
		f.asked, f.heard = now, now
		out = append(out, fetch{not: f.wrong, number: f.number + 1})
		if c, ok := f.ahead[f.lowest()]; ok {
			out = append(out, bridge{c.group})
		}
	}
	return out
}
