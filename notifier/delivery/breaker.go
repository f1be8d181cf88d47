package delivery

import (
	"time"

	"payledger/domain"
)

// The circuit breaker of an endpoint opens after failuresToOpen failed attempts
// in a row. Then single attempts, probes, are let through: the first after
// minProbeWait, and after each that fails the wait doubles, up to maxProbeWait.
const (
	failuresToOpen = 10
	minProbeWait   = 30 * time.Second
	maxProbeWait   = 15 * time.Minute
)

type breaker struct {
	until   domain.Instant // 0: closed
	wait    time.Duration
	probing bool
	granted bool // the next probe may begin at once, because the endpoint was changed
}

// mayBegin is how many attempts may begin, up to limit.
func (b *breaker) mayBegin(now domain.Instant, limit int) int {
	switch {
	case b.until == 0:
		return limit
	case b.probing || now < b.until:
		return 0
	default:
		return min(limit, 1)
	}
}

// begun notes that an attempt begins, and says whether it is a granted probe.
func (b *breaker) begun() (granted bool) {
	granted = b.granted
	b.probing, b.granted = b.until != 0, false
	return granted
}

// ended notes how an attempt ended; failures is how many failed since the
// last success. random, from 0 up to 1, spreads the probes. A requested attempt
// is no probe.
func (b *breaker) ended(now domain.Instant, failures int, random float64, requested bool) {
	switch {
	case failures == 0:
		*b = breaker{}
	case b.probing && !requested && b.granted: // since the probe began
		b.probing = false
	case b.probing && !requested || b.until == 0 && failures >= failuresToOpen:
		b.wait = min(max(2*b.wait, minProbeWait), maxProbeWait)
		b.until = now.Add(b.wait + time.Duration(float64(b.wait)*random/4))
		b.probing = false
	}
}

// abandoned notes that a chosen attempt did not begin, or that its outcome says
// nothing about the endpoint.
func (b *breaker) abandoned() { b.probing = false }

// tryNow lets a single attempt through at once if the breaker is open.
func (b *breaker) tryNow(now domain.Instant) {
	b.until, b.granted = min(b.until, now), b.until != 0
}

// open returns until when the breaker is open, 0 if it is closed.
func (b *breaker) open(now domain.Instant) domain.Instant {
	if b.until > now {
		return b.until
	}
	return 0
}
