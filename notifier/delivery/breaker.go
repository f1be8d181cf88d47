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
	granted bool // the next probe was let through by a change of the endpoint
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

// begun notes that an attempt begins, and says whether it is one that was
// granted.
func (b *breaker) begun() (granted bool) {
	granted = b.granted
	b.probing, b.granted = b.until != 0, false
	return granted
}

// ended notes how an attempt ended; failures is how many failed since the
// last success. random spreads the probes. One that somebody asked for was no
// probe.
func (b *breaker) ended(now domain.Instant, failures int, random float64, asked bool) {
	switch {
	case failures == 0:
		*b = breaker{}
	case b.probing && !asked || b.until == 0 && failures >= breakerFailures:
		b.wait = min(max(2*b.wait, breakerFirst), breakerMost)
		b.until = now.Add(b.wait + time.Duration(float64(b.wait)*random/4))
		b.probing, b.granted = false, false
	}
}

// passed notes that an attempt which was to begin did not, or said nothing
// about the endpoint.
func (b *breaker) passed() { b.probing = false }

// tryNow lets a single attempt through at once if the breaker is open.
func (b *breaker) tryNow(now domain.Instant) {
	b.until, b.granted = min(b.until, now), b.until != 0
}

// open answers until when the breaker is open, 0 if it is closed.
func (b *breaker) open(now domain.Instant) domain.Instant {
	if b.until > now {
		return b.until
	}
	return 0
}
