package delivery

import (
	"time"

	"payledger/domain"
)

// The circuit breaker of an endpoint opens when so many attempts failed one
// after the other. Then a single attempt is let through after a while, and
// after each that fails the while doubles.
const (
	breakerFailures = 10
	breakerFirst    = 30 * time.Second
	breakerMost     = 15 * time.Minute
)

type breaker struct {
	until   domain.Instant // 0: closed
	wait    time.Duration
	probing bool
}

// allow says how many attempts may begin.
func (b *breaker) allow(now domain.Instant, most int) int {
	switch {
	case b.until == 0:
		return most
	case b.probing || now < b.until:
		return 0
	default:
		return min(most, 1)
	}
}

// begun notes that an attempt begins.
func (b *breaker) begun() { b.probing = b.until != 0 }

// ended notes how an attempt ended; failures is how many failed since the
// last success. random spreads the probes.
func (b *breaker) ended(now domain.Instant, failures int, random float64) {
	switch {
	case failures == 0:
		*b = breaker{}
	case b.probing || b.until == 0 && failures >= breakerFailures:
		b.wait = min(max(2*b.wait, breakerFirst), breakerMost)
		b.until = now.Add(b.wait + time.Duration(float64(b.wait)*random/4))
		b.probing = false
	}
}

// passed notes that an attempt which was to begin did not, or said nothing
// about the endpoint.
func (b *breaker) passed() { b.probing = false }

// tryNow lets a single attempt through at once if the breaker is open.
func (b *breaker) tryNow(now domain.Instant) { b.until = min(b.until, now) }

// open answers until when the breaker is open, 0 if it is closed.
func (b *breaker) open(now domain.Instant) domain.Instant {
	if b.until > now {
		return b.until
	}
	return 0
}
