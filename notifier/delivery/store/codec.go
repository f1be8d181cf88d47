package store

import (
	"encoding/binary"
	"fmt"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/values"
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
	LastFailure  domain.ID      // event of the last attempt that failed; zero: not failing
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
func (t *Tally) Calm() {
	t.Failures, t.FailingSince, t.Away, t.LastFailure = 0, 0, 0, domain.ID{}
}

// valueFormat is the first byte of every value.
const valueFormat = 1

// sealed appends the CRC-32C of the key and of the value so far, because bbolt
// checks nothing but its two meta pages.
func sealed(key, v []byte) []byte {
	return binary.BigEndian.AppendUint32(v, boltfile.Sum(key, v))
}

// opened begins to read a value that sealed has ended.
func opened(key, v []byte) values.Decoder {
	n := len(v) - 4
	if n < 1 || boltfile.Sum(key, v[:n]) != binary.BigEndian.Uint32(v[n:]) || v[0] != valueFormat {
		d := values.Decode(nil)
		d.Fail()
		return d
	}
	return values.Decode(v[1:n])
}

func ended(d values.Decoder, what string, key []byte) error {
	if d.End() != nil {
		return fmt.Errorf("%w: %s %x does not match its checksum", ErrDamaged, what, key)
	}
	return nil
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
	l := Lane{Started: r.Uint(), Newest: r.Uint(), NewestEvent: r.ID(), touched: domain.Instant(r.Uint()), Due: domain.Instant(r.Uint())}
	for r.More() {
		p := Entry{Sequence: r.Uint(), Event: r.ID()}
		flags := r.Byte()
		p.Final, p.Requested = flags&1 != 0, flags&2 != 0
		l.Line = append(l.Line, p)
	}
	return l, ended(r, "the lane", key)
}

func appendRecord(b, key []byte, d Record) []byte {
	b = append(b, valueFormat)
	b = append(b, d.Payment[:]...)
	b = values.AppendText(b, d.Kind)
	b = binary.AppendUvarint(b, d.Sequence)
	b = binary.AppendUvarint(b, uint64(d.Position))
	b = values.AppendText(b, d.State)
	b = binary.AppendUvarint(b, uint64(d.Render))
	b = binary.AppendUvarint(b, uint64(d.Created))
	b = binary.AppendUvarint(b, uint64(d.touched))
	b = binary.AppendUvarint(b, uint64(d.Tries))
	b = binary.AppendUvarint(b, uint64(d.Total))
	for _, a := range d.Attempts {
		b = binary.AppendUvarint(b, uint64(a.At))
		b = binary.AppendUvarint(b, uint64(a.Status))
		b = values.AppendText(b, a.Error)
		b = binary.AppendUvarint(b, uint64(a.DurationMS))
		b = values.AppendText(b, a.Answer)
	}
	return sealed(key, b)
}

func parseRecord(event domain.ID, key, v []byte) (Record, error) {
	r := opened(key, v)
	d := Record{
		Event: event, Payment: r.ID(), Kind: domain.Kind(r.Text()), Sequence: r.Uint(),
		Position: eventstore.Position(r.Uint()), State: domain.DeliveryState(r.Text()), Render: int(r.Uint()),
		Created: domain.Instant(r.Uint()), touched: domain.Instant(r.Uint()), Tries: int(r.Uint()), Total: int(r.Uint()),
	}
	for r.More() {
		d.Attempts = append(d.Attempts, domain.AttemptObject{
			At: domain.Instant(r.Uint()), Status: int(r.Uint()), Error: string(r.Text()), DurationMS: int64(r.Uint()), Answer: string(r.Text()),
		})
	}
	return d, ended(r, "the delivery", key)
}

func appendTally(b, key []byte, project, id string, t Tally) []byte {
	b = append(b, valueFormat)
	b = values.AppendText(b, project)
	b = values.AppendText(b, id)
	for _, n := range [...]int{t.Lanes, t.Pending, t.Undelivered, t.Failures} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(t.FailingSince))
	b = binary.AppendUvarint(b, uint64(t.Away.Milliseconds()))
	b = append(b, t.LastFailure[:]...)
	return sealed(key, b)
}

func parseTally(key, v []byte) (project, id string, t Tally, err error) {
	r := opened(key, v)
	project, id = string(r.Text()), string(r.Text())
	t = Tally{Lanes: int(r.Uint()), Pending: int(r.Uint()), Undelivered: int(r.Uint()), Failures: int(r.Uint()), FailingSince: domain.Instant(r.Uint())}
	t.Away = time.Duration(r.Uint()) * time.Millisecond
	if r.More() { // from version 6 of the file on
		t.LastFailure = r.ID()
	}
	return project, id, t, ended(r, "the endpoint", key)
}
