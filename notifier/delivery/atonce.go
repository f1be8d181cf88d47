package delivery

import (
	"context"
	"time"
)

// atOnce are the attempts that may begin with the transaction that enqueues
// their events: those with endpoints that nothing else waits for. They spare
// the machine a transaction, and merchants its time. While the writer is busy
// they are of final events alone: the others wait aMoment, because they are
// about to be superseded, which spares the machine more.
type atOnce struct {
	starts map[*target]*startOp
	final  bool
}

const aMoment = 50 * time.Millisecond

// atOnce reserves places for the first attempts of events that are about to be
// enqueued.
func (l *Lanes) atOnce(ctx context.Context, events []Event) atOnce {
	l.mu.Lock()
	idle := l.running == nil
	l.mu.Unlock()
	if idle {
		return atOnce{}
	}
	first := atOnce{make(map[*target]*startOp), l.writer.busy.Load()}
	wanted := make(map[*target]int)
	for _, e := range events[:min(len(events), maxStarts)] {
		if t := l.known(e.Endpoint); t != nil && first.takes(e) && !e.Unconfirmed {
			wanted[t]++
		}
	}
	for t, n := range wanted {
		endpoint, state, err := l.endpoint(ctx, t)
		if err != nil || state != "" {
			continue // t's own goroutine deals with it
		}
		if n = l.reserve(t, n); n > 0 {
			first.starts[t] = &startOp{target: t, endpoint: endpoint, places: n}
		}
	}
	return first
}

func (a atOnce) takes(e Event) bool { return e.Kind.Final() || !a.final }

// reserve takes up to n places for attempts with an endpoint, none where
// something waits already: that comes first.
func (l *Lanes) reserve(t *target, n int) int {
	t.due.Lock()
	defer t.due.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.window.keys) > 0 || !t.window.all || t.leaving || t.breaker.until != 0 {
		return 0
	}
	n = t.slots.take(t, min(n, l.config.Limits.Concurrency-t.requests, int(t.limiter.TokensAt(time.Now()))))
	t.requests += n
	return n
}

// add lets an attempt with a lane that was empty begin, if there is a place for
// it.
func (a atOnce) add(t *target, e Event, lane dueKey) {
	if o := a.starts[t]; o != nil && len(o.keys) < o.places && a.takes(e) {
		o.keys = append(o.keys, lane)
	}
}

// beginAll makes the attempts, if what they need is durable.
func (l *Lanes) beginAll(first atOnce, durable bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range first.starts {
		if !durable {
			o.begun = nil
		}
		if l.running != nil {
			l.running.begin(o)
		}
	}
}

// begin makes the attempts that a durable change allows, and gives back the
// places that it had no use for.
func (l *Lanes) begin(ctx context.Context, o *startOp) {
	t := o.target
	t.limiter.AllowN(time.Now(), len(o.begun))
	for _, a := range o.begun {
		l.attempts.Go(func() { l.attempt(ctx, t, o.endpoint, a) })
	}
	free := o.places - len(o.begun)
	switch {
	case free > 0 && len(o.asked) > 0:
		t.answered(free)
	case free > 0:
		if len(o.begun) == 0 {
			t.passed()
		}
		t.ended(free)
	}
}
