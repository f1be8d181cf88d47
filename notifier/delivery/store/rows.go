package store

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// Tables are the file's buckets as a transaction sees them.
//
//	meta         see file.go
//	endpoints    number (4) → project, id and tally of the endpoint
//	lanes        payment (16), number (4) → lane
//	due          number (4), DueKey (24) → nothing; the lanes that wait
//	pending      number (4), event (16) → record; so are the next two:
//	undelivered  given up, parked, held or unconfirmed
//	settled      delivered, superseded or cancelled
//
// A delivery's record is in exactly one of the last three. Keys that begin with
// the payment keep together what changes at the same time for all endpoints:
// lanes are the one bucket that is never listed by endpoint.
type Tables struct {
	meta, endpoints, lanes, due, pending, undelivered, settled *bbolt.Bucket
}

const (
	bucketMeta        = "meta"
	bucketEndpoints   = "endpoints"
	bucketLanes       = "lanes"
	bucketDue         = "due"
	bucketPending     = "pending"
	bucketUndelivered = "undelivered"
	bucketSettled     = "settled"
)

func buckets() []string {
	return []string{bucketMeta, bucketEndpoints, bucketLanes, bucketDue, bucketPending, bucketUndelivered, bucketSettled}
}

func tablesOf(btx *bbolt.Tx) Tables {
	of := func(name string) *bbolt.Bucket { return btx.Bucket([]byte(name)) }
	return Tables{
		meta: of(bucketMeta), endpoints: of(bucketEndpoints), lanes: of(bucketLanes), due: of(bucketDue),
		pending: of(bucketPending), undelivered: of(bucketUndelivered), settled: of(bucketSettled),
	}
}

// all are the buckets in the order of their names in buckets.
func (t Tables) all() []*bbolt.Bucket {
	return []*bbolt.Bucket{t.meta, t.endpoints, t.lanes, t.due, t.pending, t.undelivered, t.settled}
}

// Bolt is the transaction, for what is about the file as a whole.
func (t Tables) Bolt() *bbolt.Tx { return t.meta.Tx() }

// of answers the bucket of records in a state.
func (t Tables) of(s domain.DeliveryState) *bbolt.Bucket {
	switch {
	case s == domain.DeliveryPending:
		return t.pending
	case Undelivered(s):
		return t.undelivered
	default:
		return t.settled
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

// Number is that of an endpoint in the file.
type Number uint32

func (n Number) key() []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

func (n Number) keyOf(id domain.ID) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 20), uint32(n)), id[:]...)
}

func (n Number) keyDue(k DueKey) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 28), uint32(n)), k[:]...)
}

// LaneKey is the key of a lane.
type LaneKey [20]byte

// Lane is the key of the endpoint's lane for a payment.
func (n Number) Lane(payment domain.ID) (k LaneKey) {
	copy(k[:], payment[:])
	binary.BigEndian.PutUint32(k[len(payment):], uint32(n))
	return k
}

// Parts are the endpoint and the payment of the lane.
func (k LaneKey) Parts() (n Number, payment domain.ID) {
	return Number(binary.BigEndian.Uint32(k[len(payment):])), domain.ID(k[:len(payment)])
}

// DueKey is the key of a waiting lane among those of its endpoint: the
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

// Progress answers how far the fan-out got, and the log's last position when the
// file was made.
func (t Tables) Progress() (after, base eventstore.Position) {
	return positionIn(t.meta, keyAfter), positionIn(t.meta, keyBase)
}

// Time is the lanes' clock at the last change.
func (t Tables) Time() domain.Instant { return domain.Instant(numberIn(t.meta, keyTime)) }

// RequestsUnknown reports whether requests may be under way that the file does not have:
// those of a node that led before, and whose file was lost.
func (t Tables) RequestsUnknown() bool { return numberIn(t.meta, keyUnknown) != 0 }

// Highest is the highest number of an endpoint.
func (t Tables) Highest() Number { return Number(numberIn(t.meta, keyEndpoints)) }

// EachEndpoint reads all endpoints.
func (t Tables) EachEndpoint(fn func(n Number, project, id string, counted Tally)) error {
	return t.endpoints.ForEach(func(key, v []byte) error {
		project, id, counted, err := parseTally(key, v)
		if err == nil {
			fn(Number(binary.BigEndian.Uint32(key)), project, id, counted)
		}
		return err
	})
}

// LaneAt is a lane with its place in the file.
type LaneAt struct {
	Lane
	Number  Number
	Payment domain.ID
	Known   bool // it is in the file

	wait   DueKey // its key among those that wait, if it does
	waited bool
}

// Key is the key of the lane.
func (l *LaneAt) Key() LaneKey { return l.Number.Lane(l.Payment) }

// Lane reads an endpoint's lane for a payment. One that is not in the file is
// empty.
func (t Tables) Lane(n Number, payment domain.ID) (*LaneAt, error) {
	l := &LaneAt{Number: n, Payment: payment}
	key := l.Key()
	v := t.lanes.Get(key[:])
	if v == nil {
		return l, nil
	}
	var err error
	l.Lane, err = parseLane(key[:], v)
	l.Known, l.waited, l.wait = true, len(l.Line) > 0, DueAt(l.Due, payment)
	return l, err
}

// EachLane reads all lanes.
func (t Tables) EachLane(fn func(k LaneKey, l Lane) error) error {
	return t.lanes.ForEach(func(k, v []byte) error {
		l, err := parseLane(k, v)
		if err != nil {
			return err
		}
		return fn(LaneKey(k), l)
	})
}

// DueAfter lists up to n of an endpoint's keys among those that wait, after one.
func (t Tables) DueAfter(to Number, after DueKey, n int) []DueKey {
	var keys []DueKey
	prefix := to.key()
	c := t.due.Cursor()
	for k, _ := c.Seek(to.keyDue(after)); bytes.HasPrefix(k, prefix) && len(keys) < n; k, _ = c.Next() {
		if key := DueKey(k[4:]); key != after {
			keys = append(keys, key)
		}
	}
	return keys
}

// Record finds a delivery.
func (t Tables) Record(to Number, event domain.ID) (Record, bool, error) {
	key := to.keyOf(event)
	for _, b := range [...]*bbolt.Bucket{t.pending, t.settled, t.undelivered} {
		if v := b.Get(key); v != nil {
			d, err := parseRecord(event, key, v)
			return d, true, err
		}
	}
	return Record{}, false, nil
}

// OldestPending is the event of an endpoint's oldest delivery in line.
func (t Tables) OldestPending(to Number) (event domain.ID, ok bool) {
	k, _ := t.pending.Cursor().Seek(to.key())
	if !bytes.HasPrefix(k, to.key()) {
		return event, false
	}
	return domain.ID(k[4:]), true
}

// Pending reads a delivery in line, which has to be recorded.
func (t Tables) Pending(to Number, event domain.ID) (Record, error) {
	key := to.keyOf(event)
	v := t.pending.Get(key)
	if v == nil {
		return Record{}, fmt.Errorf("%w: delivery %s is in line and not recorded", ErrDamaged, event)
	}
	return parseRecord(event, key, v)
}

func numberIn(b *bbolt.Bucket, name string) uint64 {
	v := b.Get([]byte(name))
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func positionIn(b *bbolt.Bucket, name string) eventstore.Position {
	return eventstore.Position(numberIn(b, name))
}
