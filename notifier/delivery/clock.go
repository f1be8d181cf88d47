package delivery

import (
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
func (c clock) shown(at domain.Instant) domain.Instant {
	return domain.InstantOf(c.wall()) + at - c.now()
}

// until is how long it takes from now to an instant.
func until(at, now domain.Instant) time.Duration { return time.Duration(at-now) * time.Millisecond }
