package delivery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

// errDamaged means that the lane file does not hold what was written to it.
// It is not to be trusted any more, as a whole.
var errDamaged = errors.New("the lane file is damaged")

// record is one delivery as it is stored, under its endpoint and event.
type record struct {
	event    domain.ID
	payment  domain.ID // of the lane; that of a test is its event
	kind     domain.Kind
	sequence uint64
	position eventstore.Position
	state    domain.DeliveryState
	render   int            // version of the body's form
	created  domain.Instant // by the wall clock
	touched  domain.Instant // by the lanes' clock, when the state was last set
	tries    int            // used up of the schedule
	total    int            // attempts ever begun and answered
	attempts []domain.AttemptObject
}

// tally is what is counted and remembered of one endpoint.
type tally struct {
	lanes, pending, undelivered int

	failures     int            // attempts failed one after the other
	failingSince domain.Instant // by the lanes' clock; 0: not failing
	away         time.Duration  // since then, during which no program ran
}

// failingFor is how long the endpoint has failed while a program ran to see it.
func (t tally) failingFor(now domain.Instant) time.Duration {
	if t.failingSince == 0 {
		return 0
	}
	return until(now, t.failingSince) - t.away
}

// calm forgets failures.
func (t *tally) calm() { t.failures, t.failingSince, t.away = 0, 0, 0 }

// valueFormat is the first byte of every value.
const valueFormat = 1

// Every value ends with the CRC-32C of what comes before it and of its key,
// because bbolt checks nothing but its two meta pages.
func sealed(key, v []byte) []byte {
	return binary.BigEndian.AppendUint32(v, checksum(key, v))
}

func checksum(key, v []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(key, table), table, v)
}

// reader takes a value apart; the first thing amiss sticks.
type reader struct {
	rest []byte
	bad  bool
}

func opened(key, v []byte) *reader {
	n := len(v) - 4
	if n < 1 || checksum(key, v[:n]) != binary.BigEndian.Uint32(v[n:]) || v[0] != valueFormat {
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
		return fmt.Errorf("%w: %s %x does not match its checksum", errDamaged, what, key)
	}
	return nil
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendLane(b, key []byte, l lane) []byte {
	b = append(b, valueFormat)
	b = binary.AppendUvarint(b, l.started)
	b = binary.AppendUvarint(b, l.newest)
	b = append(b, l.newestEvent[:]...)
	b = binary.AppendUvarint(b, uint64(l.touched))
	b = binary.AppendUvarint(b, uint64(l.due))
	for _, p := range l.line {
		b = binary.AppendUvarint(b, p.sequence)
		b = append(b, p.event[:]...)
		b = append(b, flag(p.final, 1)|flag(p.asked, 2))
	}
	return sealed(key, b)
}

func flag(on bool, bit byte) byte {
	if on {
		return bit
	}
	return 0
}

func parseLane(key, v []byte) (lane, error) {
	r := opened(key, v)
	l := lane{started: r.number(), newest: r.number(), newestEvent: r.id(), touched: r.instant(), due: r.instant()}
	for len(r.rest) > 0 {
		p := place{sequence: r.number(), event: r.id()}
		flags := r.bytes(1)[0]
		p.final, p.asked = flags&1 != 0, flags&2 != 0
		l.line = append(l.line, p)
	}
	return l, r.done("the lane", key)
}

func appendRecord(b, key []byte, d record) []byte {
	b = append(b, valueFormat)
	b = append(b, d.payment[:]...)
	b = appendText(b, string(d.kind))
	b = binary.AppendUvarint(b, d.sequence)
	b = binary.AppendUvarint(b, uint64(d.position))
	b = appendText(b, string(d.state))
	b = binary.AppendUvarint(b, uint64(d.render))
	b = binary.AppendUvarint(b, uint64(d.created))
	b = binary.AppendUvarint(b, uint64(d.touched))
	b = binary.AppendUvarint(b, uint64(d.tries))
	b = binary.AppendUvarint(b, uint64(d.total))
	for _, a := range d.attempts {
		b = binary.AppendUvarint(b, uint64(a.At))
		b = binary.AppendUvarint(b, uint64(a.Status))
		b = appendText(b, a.Error)
		b = binary.AppendUvarint(b, uint64(a.DurationMS))
		b = appendText(b, a.Answer)
	}
	return sealed(key, b)
}

func parseRecord(event domain.ID, key, v []byte) (record, error) {
	r := opened(key, v)
	d := record{
		event: event, payment: r.id(), kind: domain.Kind(r.text()), sequence: r.number(),
		position: eventstore.Position(r.number()), state: domain.DeliveryState(r.text()), render: r.int(),
		created: r.instant(), touched: r.instant(), tries: r.int(), total: r.int(),
	}
	for len(r.rest) > 0 {
		d.attempts = append(d.attempts, domain.AttemptObject{
			At: r.instant(), Status: r.int(), Error: r.text(), DurationMS: int64(r.number()), Answer: r.text(),
		})
	}
	return d, r.done("the delivery", key)
}

func appendTally(b, key []byte, project, id string, t tally) []byte {
	b = append(b, valueFormat)
	b = appendText(b, project)
	b = appendText(b, id)
	for _, n := range [...]int{t.lanes, t.pending, t.undelivered, t.failures} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = binary.AppendUvarint(b, uint64(t.failingSince))
	b = binary.AppendUvarint(b, uint64(t.away.Milliseconds()))
	return sealed(key, b)
}

func parseTally(key, v []byte) (project, id string, t tally, err error) {
	r := opened(key, v)
	project, id = r.text(), r.text()
	t = tally{lanes: r.int(), pending: r.int(), undelivered: r.int(), failures: r.int(), failingSince: r.instant()}
	t.away = time.Duration(r.number()) * time.Millisecond
	return project, id, t, r.done("the endpoint", key)
}
