package cluster

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"payledger/eventstore/bolt"
)

// republishAfter is the time before a slot is published again whose outcome is unknown. A
// server that LOG has only just elected may refuse for some ms what comes to it, so while
// LOG's end is looked for it is resendAfter.
const republishAfter = 400 * time.Millisecond

// sequencer publishes the groups that the own committer stages, one at a time, each
// for the slot behind the last group of the own file. The slot is decided by LOG
// alone: accepted, or the own nonce in the feed. Nothing else says that it is lost
// except another nonce in the feed.
type sequencer struct {
	follower *follower
	start    [8]byte // of the nonces
	nonces   uint64

	leading bool
	term    uint64        // how often it began to lead
	peers   int           // how many have said how far they are since then
	ready   bool          // it has found LOG's end since it leads
	began   time.Duration // when it last made progress
	longer  []status      // peers that report a longer log than this file, the longest first
	reached uint64        // the number when longer was last looked at
	heir    nodeName      // who is to be the next one, once nothing is under way
	asking  bool          // LOG is being asked to have the heir for its leader
	ending  bool          // LOG is to end with the next group

	group   *bolt.Group // that the committer has staged; nil: none
	flight  *flight
	waiting []asked // reads that wait for a group published after they came
}

// flight is a publication whose outcome is not known.
type flight struct {
	group     *bolt.Group
	committer bool    // the group is the committer's; else it is a barrier
	riders    []asked // came before it was first published
	again     time.Duration
	landed    bool // accepted, and being committed
}

func (s *sequencer) step(now time.Duration, e event) []effect {
	switch e := e.(type) {
	case staged:
		return s.stage(e.group)
	case committed:
		s.follower.done()
		s.flight = nil
	case accepted:
		if f := s.flight; f != nil && e.nonce == f.group.Nonce && e.number == f.group.Number {
			return s.land(now)
		}
	case unknown:
		return s.unknown(now, e.nonce)
	case ended:
		return s.ended(e.number)
	case leads:
		if e.yes && s.asking {
			return nil // it is older than the question
		}
		return s.lead(now, e.yes)
	case leaves:
		if s.leading {
			s.heir = e.to
		}
	case ends:
		s.ending = s.ready && s.heir == ""
	case asksNoMore:
		s.asking = false
	case asked:
		return s.ask(e)
	case status:
		return s.status(now, e)
	}
	return nil
}

// stage takes a group from the committer. It is decided later, but by a node that
// does not lead it is taken back at once. While the sequencer looks for LOG's end, the
// group is its first attempt at that.
func (s *sequencer) stage(g *bolt.Group) []effect {
	if !s.leading || s.heir != "" || s.ending || s.follower.busy || s.lacks() {
		return []effect{decide{}}
	}
	s.group = g
	return nil
}

// lead begins to lead or ceases to. What is under way when it ceases may still be
// accepted: then the feed brings it.
func (s *sequencer) lead(now time.Duration, yes bool) []effect {
	if yes == s.leading {
		return nil
	}
	s.leading, s.ready, s.peers, s.began, s.heir, s.longer, s.ending = yes, false, 0, now, "", nil, false
	if yes {
		s.term++
		return []effect{askStatus{s.term}}
	}
	out := s.takeBack()
	s.waiting = nil // their nodes ask again
	return out
}

// lacks reports whether there may be groups that the file does not have.
func (s *sequencer) lacks() bool { return s.follower.behind() || len(s.longer) > 0 }

// yield takes back what the committer has staged if its slot is taken: the file has
// to be free for the groups that the follower applies.
func (s *sequencer) yield() []effect {
	if s.group == nil || !s.lacks() {
		return nil
	}
	s.group = nil
	return []effect{decide{}}
}

// takeBack gives up what is staged and what is under way, unless it has landed.
func (s *sequencer) takeBack() []effect {
	if f := s.flight; f != nil && !f.landed {
		s.waiting = append(f.riders, s.waiting...)
		s.flight = nil
		if f.committer {
			s.follower.busy = false
			return []effect{decide{}}
		}
	}
	if s.group != nil {
		s.group = nil
		return []effect{decide{}}
	}
	return nil
}

// status is a peer's. A group in a peer's file was accepted, so LOG had it. If LOG
// has forgotten it, it is published again from that file. But it is a claim: if nothing
// comes of it for a while, it is dropped.
func (s *sequencer) status(now time.Duration, p status) []effect {
	if !s.leading || p.term != s.term {
		return nil
	}
	s.peers++
	if s.ready || p.number <= s.follower.number {
		return nil
	}
	s.longer = append(without(s.longer, func(c status) bool { return c.from == p.from }), p)
	slices.SortFunc(s.longer, func(a, b status) int { return cmp.Compare(b.number, a.number) })
	s.began = now
	return []effect{look{}}
}

// ended: LOG ends here, or did some time ago. If a file is longer, LOG has forgotten an
// acknowledged tail.
func (s *sequencer) ended(number uint64) []effect {
	if number > s.follower.number {
		s.follower.last = max(s.follower.last, number)
	}
	switch {
	case number < s.follower.number && s.leading && s.peers > 0:
		return []effect{republish{number: number + 1}}
	case number < s.follower.number:
		return []effect{compareEnd{number}}
	case !s.leading || number > s.follower.number:
	case len(s.longer) > 0:
		return []effect{republish{s.longer[0].from, number + 1}}
	}
	return nil
}

// settle drops the reports that the file has caught up with.
func (s *sequencer) settle(now time.Duration) {
	if n := s.follower.number; len(s.longer) > 0 && n != s.reached {
		s.reached, s.began = n, now
		s.longer = without(s.longer, func(c status) bool { return c.number <= n })
	}
}

// ask is a read. It can be answered once a group is accepted that is published after
// this moment: then nothing was acknowledged elsewhere before it.
func (s *sequencer) ask(q asked) []effect {
	if !s.leading {
		return nil
	}
	// A node looks at the answer to its newest question alone.
	s.waiting = append(without(s.waiting, func(old asked) bool { return old.from == q.from }), q)
	return nil
}

// next publishes for the next slot, if there is reason to and none is under way.
func (s *sequencer) next(now time.Duration) []effect {
	f := s.follower
	s.settle(now)
	if s.flight != nil && s.flight.group.Number <= f.number {
		return s.takeBack() // the file has its slot from a peer
	}
	if s.heir != "" && s.flight == nil { // nothing is under way that could be lost
		to := s.heir
		s.asking = true
		return append(s.lead(now, false), stepDown{to})
	}
	switch {
	case !s.leading || s.flight != nil || s.peers == 0 || !f.sure:
		return nil
	case f.busy || s.lacks():
		return nil
	case s.group == nil && len(s.waiting) == 0 && s.ready && !s.ending:
		return nil
	}
	s.flight = &flight{group: s.group, committer: s.group != nil, riders: s.waiting, again: now + republishAfter}
	if !s.flight.committer {
		s.flight.group = &bolt.Group{End: s.ending}
	}
	s.nonces++
	g := s.flight.group
	g.Number = f.number + 1
	g.Nonce = bolt.Nonce(binary.BigEndian.AppendUint64(s.start[:8:8], s.nonces))
	f.busy = s.flight.committer
	s.group, s.waiting, s.began = nil, nil, now
	return []effect{publish{g}}
}

// fed looks at what LOG has in the slot.
func (s *sequencer) fed(g *bolt.Group) []effect {
	f := s.flight
	switch {
	case f == nil || f.landed || g.Number != f.group.Number:
		return nil
	case g.Nonce == f.group.Nonce:
		return s.land(0)
	}
	return s.takeBack() // the follower applies what took the slot
}

// land: the slot has the group.
func (s *sequencer) land(now time.Duration) []effect {
	f := s.flight
	if f.landed {
		return nil
	}
	f.landed, s.ready, s.began, s.longer = true, true, max(s.began, now), nil
	var out []effect
	switch {
	case f.committer:
		out = append(out, decide{f.group}) // committed follows
	case f.group.End:
		s.follower.busy = true
		return []effect{conclude{f.group}}
	default:
		s.follower.done()
		s.flight = nil
	}
	for _, q := range f.riders {
		out = append(out, answer{q.from, q.question, f.group.Number})
	}
	return out
}

func (s *sequencer) unknown(now time.Duration, nonce bolt.Nonce) []effect {
	f := s.flight
	if f == nil || f.landed || f.group.Nonce != nonce {
		return nil
	}
	f.again = now + republishAfter
	if !s.ready {
		f.again = now + resendAfter
	}
	return []effect{look{}}
}

// tick publishes the same bytes for the same slot again.
func (s *sequencer) tick(now time.Duration) []effect {
	var out []effect
	if s.leading && s.peers == 0 {
		out = append(out, askStatus{s.term})
	}
	if f := s.flight; f != nil && !f.landed && now >= f.again {
		f.again = now + republishAfter
		out = append(out, publish{f.group}, look{})
	}
	if len(s.longer) > 0 {
		out = append(out, look{})
	}
	switch {
	case !s.leading || (s.flight == nil && s.ready && s.group == nil) || now-s.began < patience:
	case len(s.longer) > 0:
		c := s.longer[0]
		s.longer, s.began = s.longer[1:], now
		out = append(out, doubt{c.from, fmt.Errorf("it says that it has group %d, and does not have group %d", c.number, s.follower.number+1)})
	default:
		s.began = now
		out = append(out, stepDown{})
	}
	return out
}
