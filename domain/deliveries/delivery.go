// Package deliveries holds the rules by which merchants are notified in order, and the
// event that records what was sent: as pure as package domain. Package views folds the
// log by them; package notifier/delivery sends by them.
package deliveries

import (
	"bytes"
	"encoding/binary"
	"slices"
	"time"

	"payledger/domain"
)

// Delivery is the delivery of one event to one endpoint.
type Delivery struct {
	Event    domain.ID
	Payment  domain.ID // of the lane; that of a test is its event
	Kind     domain.Kind
	Sequence uint64
	Position uint64
	State    domain.DeliveryState
	Created  domain.Instant
	Touched  domain.Instant // when the state was last set
	Begun    domain.Instant // when the attempt under way began; 0: none is
	Tries    int            // used up of the schedule
	Total    int            // attempts ever ended
	Attempts []domain.AttemptObject
}

// maxAttempts bounds the attempts kept of one delivery.
const maxAttempts = 64

// End notes how an attempt ended.
func (d *Delivery) End(e Entry) {
	d.Total++
	if e.What != Probed {
		d.Tries++
	}
	d.Attempts = append(d.Attempts, domain.AttemptObject{At: d.Begun, Status: e.Status, Error: e.Class, DurationMS: e.Took})
	if n := len(d.Attempts) - maxAttempts; n > 0 {
		d.Attempts = slices.Clone(d.Attempts[n:])
	}
	d.Begun = 0
	switch e.What {
	case Delivered:
		d.State = domain.DeliveryDelivered
	case Parked:
		d.State = domain.DeliveryParked
	case Gone:
		d.State = domain.DeliveryHeld
	case GivenUp:
		d.State = domain.DeliveryGivenUp
	}
}

// Undelivered reports whether deliveries in a state are dead letters.
func Undelivered(s domain.DeliveryState) bool {
	switch s {
	case domain.DeliveryGivenUp, domain.DeliveryParked, domain.DeliveryHeld, domain.DeliveryUnconfirmed:
		return true
	}
	return false
}

// Classes of failures that say nothing about the endpoint: the request was not made.
const (
	ClassInternal = "internal"
	ClassUnsigned = "unsigned"
)

// Endpoint is what is counted and remembered of the deliveries to one endpoint.
type Endpoint struct {
	Project     string
	Lanes       int // with something queued
	Pending     int // deliveries
	Undelivered int // dead letters
	Removed     bool

	Failures     int            // attempts failed one after the other
	FailingSince domain.Instant // by the sender's clock; 0: not failing
	Away         int64          // milliseconds since then during which nothing was sent
	LastFailure  domain.ID      // event of the last attempt that failed; zero: not failing
	OpenUntil    domain.Instant // the circuit breaker is, by the sender's clock; 0: it is closed
}

// FailingFor is how long the endpoint has failed while a process sent.
func (t Endpoint) FailingFor(now domain.Instant) time.Duration {
	if t.FailingSince == 0 {
		return 0
	}
	return time.Duration(int64(now-t.FailingSince)-t.Away) * time.Millisecond
}

// Move counts a delivery that left one state ("": it is new) for another ("": it is
// forgotten).
func (t *Endpoint) Move(from, to domain.DeliveryState) {
	t.count(from, -1)
	t.count(to, 1)
}

func (t *Endpoint) count(s domain.DeliveryState, n int) {
	switch {
	case s == domain.DeliveryPending:
		t.Pending += n
	case Undelivered(s):
		t.Undelivered += n
	}
}

// DeadLetters are those that can still be sent: nobody waits for a removed endpoint's.
func (t *Endpoint) DeadLetters() int {
	if t.Removed {
		return 0
	}
	return t.Undelivered
}

// Calm forgets failures.
func (t *Endpoint) Calm() {
	t.Failures, t.FailingSince, t.Away, t.LastFailure, t.OpenUntil = 0, 0, 0, domain.ID{}, 0
}

// End notes how an attempt ended that was made for the event.
func (t *Endpoint) End(e Entry, event domain.ID, at domain.Instant) {
	switch {
	case e.What == Delivered:
		t.Calm()
		return
	case e.What == Parked, e.Class == ClassInternal, e.Class == ClassUnsigned:
		return
	}
	t.Failures++
	t.LastFailure = event
	if t.FailingSince == 0 {
		t.FailingSince = at
	}
	if e.Pause > 0 {
		t.OpenUntil = at.Add(time.Duration(e.Pause) * time.Millisecond)
	}
}

// AliveEvery is how often at least a sender says that it is there while an endpoint
// fails. A longer time without an event of a sender before one begins is time in which
// nothing was sent.
const AliveEvery = 10 * time.Minute

// Back notes that a sender begins, so long after the last event of one.
func (t *Endpoint) Back(gap time.Duration) bool {
	if t.FailingSince == 0 || gap <= AliveEvery {
		return false
	}
	t.Away += (gap - AliveEvery).Milliseconds()
	return true
}

// State is what a fold of the log knows of all senders.
type State struct {
	Position uint64         // of the last event of a sender; 0: there was none
	Sequence uint64         // and its sequence
	Time     domain.Instant // and its instant, by the sender's clock
	Base     uint64         // what became of the events up to there is unknown: the log was restored, or is older than these events

	LanesSeen, DeliveriesSeen string // where the search for what can be forgotten goes on
}

// DueKey is the key of a lane with something queued among those of its endpoint: the
// instant its first delivery is due, then the payment.
type DueKey [8 + 16]byte

// DueAt makes the key of a lane.
func DueAt(at domain.Instant, payment domain.ID) (k DueKey) {
	binary.BigEndian.PutUint64(k[:], uint64(at))
	copy(k[8:], payment[:])
	return k
}

// At is the instant in the key.
func (k DueKey) At() domain.Instant { return domain.Instant(binary.BigEndian.Uint64(k[:])) }

// Payment is the payment in the key.
func (k DueKey) Payment() domain.ID { return domain.ID(k[8:]) }

// Compare orders keys by instant, then by payment.
func (k DueKey) Compare(other DueKey) int { return bytes.Compare(k[:], other[:]) }

// Watch is told what a sender waits for, by the goroutine that folds the log: it must not
// wait for that.
type Watch struct {
	Queued    func(project, endpoint string, at DueKey) // a lane in which no attempt is under way
	Requested func(project, endpoint string, payment, event domain.ID)
	Changed   func(endpoint string)
	Unknown   func(endpoint string, position uint64) // an event names an endpoint that never was
}
