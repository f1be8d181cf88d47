package cluster

import (
	"maps"
	"slices"
	"time"
)

const (
	// peersTime is how long the peers' answers are awaited before the sequencer is asked.
	peersTime = 50 * time.Millisecond
	// retryAfter is the time before an unanswered question is sent again, and anything
	// that a node cannot do just now. A call is sent again sooner: the answer that it
	// was taken back comes at once from a node that is not the sequencer yet.
	retryAfter  = 200 * time.Millisecond
	resendAfter = 50 * time.Millisecond
	tickEvery   = 50 * time.Millisecond
	// readTime and callTime are how long a read and a call are tried.
	readTime = 2 * time.Second
	callTime = 10 * time.Second
)

// forwarder finds out what the node's reads have to see, and brings its commits to the
// sequencer, which may be the node itself. It asks and sends again as long as there is no
// answer. The ids of commits make that harmless.
type forwarder struct {
	self  nodeName
	peers []nodeName
	to    nodeName // the sequencer, as far as known

	question uint64 // the newest one
	asked    []read // collected in it, or in one before it
	askedAt  time.Duration
	waiting  []read // came after it was sent
	granted  []read // wait until the file has a group
	calls    []call

	current bool                // the file has all that was acknowledged before the start
	told    map[nodeName]uint64 // the peers' answers to the newest question
	silent  bool                // not all peers have answered the last time: the sequencer is asked too
	doubted time.Duration       // until then the sequencer alone is asked
}

type read struct {
	id       uint64
	until    time.Duration
	question uint64 // the first one that was sent after it came
	number   uint64
	again    time.Duration // when the peers' answers are doubted; 0: it was the sequencer's
}

type call struct {
	id           uint64
	again, until time.Duration // again 0: an answer is awaited
}

func (f *forwarder) step(now time.Duration, e event) []effect {
	switch e := e.(type) {
	case sequencing:
		if f.to == e.name {
			return nil
		}
		f.to = e.name
		for i := range f.calls {
			f.calls[i].again = now // what the other one had may be lost
		}
		return append(f.resend(now), f.askAgain(now)...)
	case reading:
		f.waiting = append(f.waiting, read{id: e.read, until: now + readTime})
		if len(f.asked) == 0 {
			return f.askAgain(now)
		}
	case answered:
		return f.grant(now, e, 0)
	case told:
		return f.hear(now, e)
	case calling:
		f.calls = append(f.calls, call{id: e.call, again: now, until: now + callTime})
		return f.resend(now)
	case replied:
		f.calls = without(f.calls, func(c call) bool { return c.id == e.call })
	case lost:
		for i := range f.calls {
			if f.calls[i].id == e.call && f.calls[i].again == 0 {
				f.calls[i].again = now + resendAfter
			}
		}
	}
	return nil
}

// askAgain sends one question for all reads that are not granted. Each question
// serves the reads that came before it was sent, so it has a number of its own.
func (f *forwarder) askAgain(now time.Duration) (out []effect) {
	if len(f.asked)+len(f.waiting) == 0 {
		return nil
	}
	f.question++
	for _, r := range f.waiting {
		r.question = f.question
		f.asked = append(f.asked, r)
	}
	f.waiting, f.askedAt, f.told = nil, now, make(map[nodeName]uint64)
	peers := f.trusts(now)
	if peers {
		out = append(out, askShown{f.question})
	}
	if f.to != "" && (f.silent || !peers) {
		out = append(out, ask{f.to, f.question})
	}
	return out
}

// trusts reports whether the peers' answers count.
func (f *forwarder) trusts(now time.Duration) bool {
	return f.current && len(f.peers) > 0 && now >= f.doubted
}

// hear takes a peer's answer. Once all have answered the newest question, the file needs what
// one of them has, and no more.
func (f *forwarder) hear(now time.Duration, t told) []effect {
	if t.question != f.question || !f.trusts(now) || !slices.Contains(f.peers, t.from) {
		return nil
	}
	f.told[t.from] = t.number
	if len(f.told) < len(f.peers) {
		return nil
	}
	f.silent = false
	return f.grant(now, answered{t.question, slices.Max(slices.Collect(maps.Values(f.told)))}, now+retryAfter)
}

// grant: the reads that came before the question was sent are true once the file has
// the group. The answer may be to an old question: when answers take longer than
// retryAfter, there is always a newer one.
func (f *forwarder) grant(now time.Duration, a answered, doubted time.Duration) []effect {
	if a.question > f.question {
		return nil
	}
	f.asked = without(f.asked, func(r read) bool {
		if r.question <= a.question {
			r.number, r.again = a.number, doubted
			f.granted = append(f.granted, r)
		}
		return r.question <= a.question
	})
	if len(f.waiting) == 0 {
		return nil
	}
	return f.askAgain(now)
}

// reached: the file has the groups up to the number.
func (f *forwarder) reached(number uint64) (out []effect) {
	f.granted = without(f.granted, func(r read) bool {
		if r.number <= number {
			f.current = true // the first one is the sequencer's
			out = append(out, serve{read: r.id})
		}
		return r.number <= number
	})
	return out
}

func (f *forwarder) tick(now time.Duration) (out []effect) {
	late := func(r read) bool {
		if now >= r.until {
			out = append(out, serve{read: r.id, failed: true})
		}
		return now >= r.until
	}
	f.asked, f.waiting, f.granted = without(f.asked, late), without(f.waiting, late), without(f.granted, late)
	f.granted = without(f.granted, func(r read) bool {
		doubted := r.again > 0 && now >= r.again // no group comes that a peer says it has
		if doubted {
			f.waiting, f.doubted = append(f.waiting, r), now+patience
		}
		return doubted
	})
	wait := retryAfter
	if f.trusts(now) && !f.silent {
		wait = peersTime
	}
	if len(f.asked)+len(f.waiting) > 0 && now-f.askedAt >= wait {
		f.silent = true
		out = append(out, f.askAgain(now)...)
	}
	f.calls = without(f.calls, func(c call) bool {
		if now >= c.until {
			out = append(out, giveUp{c.id})
		}
		return now >= c.until
	})
	return append(out, f.resend(now)...)
}

// resend sends the calls whose time has come.
func (f *forwarder) resend(now time.Duration) (out []effect) {
	for i := range f.calls {
		if c := &f.calls[i]; c.again != 0 && now >= c.again && f.to != "" {
			c.again = 0
			out = append(out, send{f.to, c.id})
		}
	}
	return out
}

// end refuses all reads and gives up all calls.
func (f *forwarder) end() (out []effect) {
	for _, r := range slices.Concat(f.asked, f.waiting, f.granted) {
		out = append(out, serve{read: r.id, failed: true})
	}
	for _, c := range f.calls {
		out = append(out, giveUp{c.id})
	}
	*f = forwarder{self: f.self, peers: f.peers, question: f.question}
	return out
}

func without[T any](all []T, drop func(T) bool) []T {
	var kept []T
	for _, x := range all {
		if !drop(x) {
			kept = append(kept, x)
		}
	}
	return kept
}
