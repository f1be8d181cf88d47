package cluster

import (
	"slices"
	"time"
)

const (
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

// forwarder brings the node's reads and commits to the sequencer, which may be the
// node itself, and sends them again as long as they are not answered. The ids of
// commits make that harmless.
type forwarder struct {
	self nodeName
	to   nodeName // the sequencer, as far as known

	question uint64 // the newest one
	asked    []read // collected in it, or in one before it
	askedAt  time.Duration
	waiting  []read // came after it was sent
	granted  []read // wait until the file has a group
	calls    []call
}

type read struct {
	id       uint64
	until    time.Duration
	question uint64 // the first one that was sent after it came
	number   uint64
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
		return f.grant(now, e)
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
func (f *forwarder) askAgain(now time.Duration) []effect {
	if len(f.asked)+len(f.waiting) == 0 || f.to == "" {
		return nil
	}
	f.question++
	for _, r := range f.waiting {
		r.question = f.question
		f.asked = append(f.asked, r)
	}
	f.waiting, f.askedAt = nil, now
	return []effect{ask{f.to, f.question}}
}

// grant: the reads that came before the question was sent are true once the file has
// the group. The answer may be to an old question: when answers take longer than
// retryAfter, there is always a newer one.
func (f *forwarder) grant(now time.Duration, a answered) []effect {
	if a.question > f.question {
		return nil
	}
	f.asked = without(f.asked, func(r read) bool {
		if r.question <= a.question {
			r.number = a.number
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
	if len(f.asked)+len(f.waiting) > 0 && now-f.askedAt >= retryAfter {
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
	*f = forwarder{self: f.self, question: f.question}
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
