package delivery

import (
	"context"
	"slices"
	"time"

	"payledger/domain"
)

// clock is the time by which lanes wait. It goes on from the wall clock, or
// from the last instant the file knows if the wall clock was set back since,
// and from there with the monotonic clock: steps of the wall clock neither
// hold deliveries up nor let many become due at once.
type clock struct {
	wall  func() time.Time
	began time.Time
	first domain.Instant
}

func newClock(wall func() time.Time, last domain.Instant) clock {
	return clock{wall: wall, began: time.Now(), first: max(domain.InstantOf(wall()), last)}
}

func (c clock) now() domain.Instant { return c.first.Add(time.Since(c.began)) }

// shown tells an instant of the lanes' clock by the wall clock as it is now.
// How far the two are apart counts in whole seconds: below that it is rounding,
// and what is told of an instant must not change each time.
func (c clock) shown(at domain.Instant) domain.Instant {
	const second = domain.Instant(time.Second / time.Millisecond)
	apart := domain.InstantOf(c.wall()) - c.now()
	return at + (apart+second/2)/second*second
}

// A program that runs says so in the file at least so often, while an endpoint
// fails: what is longer than that between two runs nobody was there to see.
const aliveEvery = time.Minute

// keepAlive writes the time into the file until ctx ends or the file fails.
func (l *Lanes) keepAlive(ctx context.Context) {
	for sleep(ctx, aliveEvery) {
		failing := slices.ContainsFunc(l.all(), func(t *target) bool { return t.counted().FailingSince != 0 })
		if failing && l.writer.insist(ctx, aliveOp{}, maxSettleDelay) != nil {
			return
		}
	}
}

// aliveOp changes nothing: the time is written with every change.
type aliveOp struct{}

func (aliveOp) apply(*tx) error { return nil }

// until is how long it takes from now to an instant.
func until(at, now domain.Instant) time.Duration { return time.Duration(at-now) * time.Millisecond }
