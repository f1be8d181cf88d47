package checkout

import (
	"context"
	"net/http"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// changes signals the streams of open pages when their payment has a new event.
// One follower reads the log for all of them, and only while there are any: the
// last stream that leaves stops it and waits for its end.
type changes struct {
	log Events // nil: no signals
	max int    // streams at once

	mu        sync.Mutex
	total     int
	byAddress map[string]int             // of those that have any
	waiting   map[string][]chan struct{} // by payment id
	follower  *follower                  // nil: none runs
}

type follower struct {
	stop  context.CancelFunc
	ended chan struct{}
}

func newChanges(log Events, limit int) *changes {
	return &changes{log: log, max: limit, byAddress: make(map[string]int), waiting: make(map[string][]chan struct{})}
}

// join returns a channel that is signalled after each later event of the
// payment; one signal may stand for several events. It fails when there are too
// many streams, in all or from the address.
func (c *changes) join(ctx context.Context, id domain.ID, address string) (changed <-chan struct{}, leave func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := id.String()
	if c.byAddress[address] >= max(c.max/addressShare, maxPerPayment) {
		return nil, nil, &failure{status: http.StatusTooManyRequests, why: tooMany, retryAfter: streamsRetryAfter, ours: true}
	}
	if c.total >= c.max || len(c.waiting[name]) >= maxPerPayment {
		return nil, nil, &failure{status: http.StatusServiceUnavailable, why: unavailable, retryAfter: streamsRetryAfter, ours: true}
	}
	if c.follower == nil && c.log != nil {
		after, err := c.log.Last(ctx)
		if err != nil {
			return nil, nil, err
		}
		c.follow(context.WithoutCancel(ctx), after)
	}
	ch := make(chan struct{}, 1)
	c.total++
	c.byAddress[address]++
	c.waiting[name] = append(c.waiting[name], ch)
	return ch, func() { c.leave(name, address, ch) }, nil
}

// follow starts the follower, whose context outlives the request that started it.
// It ends when the log is closed; then only heartbeats update the streams.
func (c *changes) follow(ctx context.Context, after eventstore.Position) {
	ctx, stop := context.WithCancel(ctx)
	f := &follower{stop: stop, ended: make(chan struct{})}
	c.follower = f
	go func() {
		defer close(f.ended)
		_ = c.log.Follow(ctx, after, eventstore.Filter{Kind: eventstore.KindPayment}, func(r eventstore.Stored) error {
			c.signal(r.Stream.ID)
			return ctx.Err()
		})
	}()
}

func (c *changes) signal(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.waiting[name] {
		select {
		case ch <- struct{}{}:
		default: // a signal is pending already
		}
	}
}

func (c *changes) leave(name, address string, ch chan struct{}) {
	c.mu.Lock()
	c.total--
	if c.byAddress[address]--; c.byAddress[address] == 0 {
		delete(c.byAddress, address)
	}
	var rest []chan struct{}
	for _, other := range c.waiting[name] {
		if other != ch {
			rest = append(rest, other)
		}
	}
	if c.waiting[name] = rest; len(rest) == 0 {
		delete(c.waiting, name)
	}
	var last *follower
	if c.total == 0 {
		last, c.follower = c.follower, nil
	}
	c.mu.Unlock()
	if last != nil {
		last.stop()
		<-last.ended
	}
}
