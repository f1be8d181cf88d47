package delivery

import (
	"time"

	"payledger/domain"
)

// clock is the time by which lanes wait. It starts at the wall clock's time, or
// at the last instant in the log if the wall clock was set back since, and
// follows the monotonic clock from there: steps of the wall clock neither
// delay deliveries nor make many due at once.
type clock struct {
	wall  func() time.Time
	began time.Time
	first domain.Instant
}

func newClock(wall func() time.Time, last domain.Instant) clock {
	return clock{wall: wall, began: time.Now(), first: max(domain.InstantOf(wall()), last)}
}

func (c clock) now() domain.Instant { return c.first.Add(time.Since(c.began)) }

// shown converts an instant of the lanes' clock to the wall clock as it is now.
// Their difference is rounded to seconds, so that the same instant is shown the
// same each time.
func (c clock) shown(at domain.Instant) domain.Instant {
	const second = domain.Instant(time.Second / time.Millisecond)
	apart := domain.InstantOf(c.wall()) - c.now()
	return at + (apart+second/2)/second*second
}

// of converts an instant of the wall clock.
func (c clock) of(wall domain.Instant) domain.Instant {
	return wall - (domain.InstantOf(c.wall()) - c.now())
}

// until is how long it takes from now to an instant.
func until(at, now domain.Instant) time.Duration { return time.Duration(at-now) * time.Millisecond }
