package store

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Record is one delivery as it is stored, under its endpoint and event.
type Record struct {
	Event    domain.ID
	Payment  domain.ID // of the lane; that of a test is its event
	Kind     domain.Kind
	Sequence uint64
	Position eventstore.Position
	State    domain.DeliveryState
	Render   int            // version of the body's form
	Created  domain.Instant // by the wall clock
	touched  domain.Instant // by the lanes' clock, when the state was last set
	Tries    int            // used up of the schedule
	Total    int            // attempts ever begun and answered
	Attempts []domain.AttemptObject
}

// Tally is what is counted and remembered of one endpoint.
type Tally struct {
	Lanes       int // that wait
	Pending     int // deliveries in line
	Undelivered int // dead letters

	Failures     int            // attempts failed one after the other
	FailingSince domain.Instant // by the lanes' clock; 0: not failing
	Away         time.Duration  // since then, during which no program ran
}

// FailingFor is how long the endpoint has failed while a program ran to see it.
func (t Tally) FailingFor(now domain.Instant) time.Duration {
	if t.FailingSince == 0 {
		return 0
	}
	return time.Duration(now-t.FailingSince)*time.Millisecond - t.Away
}

// Add counts n deliveries that got into a state, or left it if n is negative.
func (t *Tally) Add(s domain.DeliveryState, n int) {
	switch {
	case s == domain.DeliveryPending:
		t.Pending += n
	case Undelivered(s):
		t.Undelivered += n
	}
}

// Calm forgets failures.
func (t *Tally) Calm() { t.Failures, t.FailingSince, t.Away = 0, 0, 0 }

// valueFormat is the first byte of every value.
const valueFormat = 1

// sealed appends the CRC-32C of the key and of the value so far, because bbolt
// checks nothing but its two meta pages.
func sealed(key, v []byte) []byte {
	return binary.BigEndian.AppendUint32(v, boltfile.Sum(key, v))
}

// reader reads the parts of a value. After the first error all further ones are
// zero.
type reader struct {
	rest []byte
	bad  bool
}

func opened(key, v []byte) *reader {
	n := len(v) - 4
	if n < 1 || boltfile.Sum(key, v[:n]) != binary.BigEndian.Uint32(v[n:]) || v[0] != valueFormat {
		return &reader{bad: true}
	}
	return &reader{rest: v[1:n]}
}

func (r *reader) bytes(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.bad, r.rest = true, nil
		return make([]byte, min(max(n, 0), 16))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) int() int                { return int(min(r.number(), math.MaxInt32)) }
func (r *reader) instant() domain.Instant { return domain.Instant(r.number()) }
func (r *reader) id() domain.ID           { return domain.ID(r.bytes(16)) }
func (r *reader) text() string            { return string(r.bytes(r.int())) }

func (r *reader) done(what string, key []byte) error {
	if r.bad || len(r.rest) > 0 {
		return fmt.Errorf("%w: %s %x does not match its checksum", ErrDamaged, what, key)
	}
	return nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLane(b, key []byte, l Lane) []byte {
	b = append(b, valueFormat)
	b = binary.AppendUvarint(b, l.Started)
	b = binary.AppendUvarint(b, l.Newest)
	b = append(b, l.NewestEvent[:]...)
	b = binary.AppendUvarint(b, uint64(l.touched))
	b = binary.AppendUvarint(b, uint64(l.Due))
	for _, p := range l.Line {
		b = binary.AppendUvarint(b, p.Sequence)
		b = append(b, p.Event[:]...)
		b = append(b, flag(p.Final, 1)|flag(p.Requested, 2))
	}
	return sealed(key, b)
}

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func parseLane(key, v []byte) (Lane, error) {
	r := opened(key, v)
	l := Lane{Started: r.number(), Newest: r.number(), NewestEvent: r.id(), touched: r.instant(), Due: r.instant()}
	for len(r.rest) > 0 {
		p := Entry{Sequence: r.number(), Event: r.id()}
		flags := r.bytes(1)[0]
		p.Final, p.Requested = flags&1 != 0, flags&2 != 0
		l.Line = append(l.Line, p)
	}
	return l, r.done("the lane", key)
}

func appendRecord(b, key []byte, d Record) []byte {
	b = append(b, valueFormat)
	b = append(b, d.Payment[:]...)
	b = appendText(b, string(d.Kind))
	b = binary.AppendUvarint(b, d.Sequence)
	b = binary.AppendUvarint(b, uint64(d.Position))
	b = appendText(b, string(d.State))
	b = binary.AppendUvarint(b, uint64(d.Render))
	b = binary.AppendUvarint(b, uint64(d.Created))
	b = binary.AppendUvarint(b, uint64(d.touched))
	b = binary.AppendUvarint(b, uint64(d.Tries))
	b = binary.AppendUvarint(b, uint64(d.Total))
	for _, a := range d.Attempts {
		b = binary.AppendUvarint(b, uint64(a.At))
		b = binary.AppendUvarint(b, uint64(a.Status))
		b = appendText(b, a.Error)
		b = binary.AppendUvarint(b, uint64(a.DurationMS))
		b = appendText(b, a.Answer)
	}
	return sealed(key, b)
}

func parseRecord(event domain.ID, key, v []byte) (Record, error) {
	r := opened(key, v)
	d := Record{
		Event: event, Payment: r.id(), Kind: domain.Kind(r.text()), Sequence: r.number(),
		Position: eventstore.Position(r.number()), State: domain.DeliveryState(r.text()), Render: r.int(),
		Created: r.instant(), touched: r.instant(), Tries: r.int(), Total: r.int(),
	}
	for len(r.rest) > 0 {
		d.Attempts = append(d.Attempts, domain.AttemptObject{
			At: r.instant(), Status: r.int(), Error: r.text(), DurationMS: int64(r.number()), Answer: r.text(),
		})
	}
	return d, r.done("the delivery", key)
}

func appendTally(b, key []byte, project, id string, t Tally) []byte {
	b = append(b, valueFormat)
	b = appendText(b, project)
	b = appendText(b, id)
	for _, n := range [...]int{t.Lanes, t.Pending, t.Undelivered, t.Failures} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(t.FailingSince))
	b = binary.AppendUvarint(b, uint64(t.Away.Milliseconds()))
	return sealed(key, b)
}

func parseTally(key, v []byte) (project, id string, t Tally, err error) {
	r := opened(key, v)
	project, id = r.text(), r.text()
	t = Tally{Lanes: r.int(), Pending: r.int(), Undelivered: r.int(), Failures: r.int(), FailingSince: r.instant()}
	t.Away = time.Duration(r.number()) * time.Millisecond
	return project, id, t, r.done("the endpoint", key)
}
