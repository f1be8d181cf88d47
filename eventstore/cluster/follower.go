package cluster

import (
	"time"

	"payledger/eventstore/bolt"
)

const (
	// gapTime is how long a group may be missing before it is fetched from a peer.
	gapTime = 400 * time.Millisecond
	// silence is how long the feed may bring nothing before a peer is asked.
	silence = 3 * time.Second
	// maxAhead bounds the groups that wait for one before them.
	maxAhead = 256
)

// follower applies LOG's groups to the own file in their order, one at a time. It
// skips none: a group that stays missing comes from a peer's file.
type follower struct {
	number uint64 // of the last group that the file has; one without records costs no transaction
	last   uint64 // the last number that was seen anywhere
	busy   bool   // a group is being applied, or staged or committed by the own committer
	ahead  map[uint64]*bolt.Group

	heard time.Duration // when anything was fed last
	since time.Duration // when the next group was found missing; 0: it is not
}

func (f *follower) fed(now time.Duration, g *bolt.Group) []effect {
	f.heard, f.last = now, max(f.last, g.Number)
	switch {
	case g.Number <= f.number:
		return []effect{compare{g}}
	case g.Number <= f.number+maxAhead:
		if f.ahead == nil {
			f.ahead = make(map[uint64]*bolt.Group)
		}
		f.ahead[g.Number] = g
	}
	return nil
}

// next applies the next group if it is there.
func (f *follower) next() []effect {
	for !f.busy {
		g := f.ahead[f.number+1]
		if g == nil {
			return nil
		}
		if len(g.Records) > 0 {
			f.busy = true
			return []effect{apply{g}}
		}
		f.done()
	}
	return nil
}

// done: the file has the next group.
func (f *follower) done() {
	f.number++
	delete(f.ahead, f.number)
	f.busy, f.since, f.last = false, 0, max(f.last, f.number)
}

// behind reports whether groups are known that the file does not have.
func (f *follower) behind() bool { return f.last > f.number }

func (f *follower) tick(now time.Duration) []effect {
	missing := f.behind() && !f.busy && f.ahead[f.number+1] == nil
	switch {
	case !missing:
		f.since = 0
	case f.since == 0:
		f.since = now
	}
	if (missing && now-f.since >= gapTime) || now-f.heard >= silence {
		f.since, f.heard = now, now
		return []effect{fetch{number: f.number + 1}}
	}
	return nil
}
