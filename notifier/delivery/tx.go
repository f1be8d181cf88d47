package delivery

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// tx is one change of the file. Only the writer's goroutine has one.
type tx struct {
	tables
	lanes   *Lanes
	now     domain.Instant
	changed map[*target]struct{}
	offered map[*target]struct{} // lanes that wait
	sending bool                 // attempts may begin
	begun   []attempt            // to be made when the transaction is synced
	err     error                // the first of Put and Delete
}

// tables are the file's buckets.
//
//	meta         see file.go
//	endpoints    number (4) → project, id and tally of the endpoint
//	lanes        payment (16), number (4) → lane
//	due          number (4), dueKey (24) → nothing; the lanes with somebody in line
//	pending      number (4), event (16) → record; so are the next two:
//	undelivered  given up, parked, held or unconfirmed
//	settled      delivered, superseded or cancelled
//
// A delivery's record is in exactly one of the last three. Keys that begin with
// the payment keep together what changes at the same time, whosever it is:
// lanes are the one bucket that nobody lists by endpoint.
type tables struct {
	meta, endpoints, lane, due, pending, undelivered, settled *bbolt.Bucket
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

func tablesOf(btx *bbolt.Tx) tables {
	of := func(name string) *bbolt.Bucket { return btx.Bucket([]byte(name)) }
	return tables{
		meta: of(bucketMeta), endpoints: of(bucketEndpoints), lane: of(bucketLanes), due: of(bucketDue),
		pending: of(bucketPending), undelivered: of(bucketUndelivered), settled: of(bucketSettled),
	}
}

// of answers the table of records in a state.
func (t tables) of(s domain.DeliveryState) *bbolt.Bucket {
	switch s {
	case domain.DeliveryPending:
		return t.pending
	case domain.DeliveryGivenUp, domain.DeliveryParked, domain.DeliveryHeld, domain.DeliveryUnconfirmed:
		return t.undelivered
	default:
		return t.settled
	}
}

func (l *Lanes) change(btx *bbolt.Tx) *tx {
	x := &tx{
		tables: tablesOf(btx), lanes: l, now: l.clock.now(), sending: l.sending(),
		changed: make(map[*target]struct{}), offered: make(map[*target]struct{}),
	}
	for _, b := range [...]*bbolt.Bucket{x.lane, x.due, x.pending, x.settled} {
		b.FillPercent = 0.9 // ids and times rise
	}
	return x
}

// set and remove change a row. What fails ends the transaction.
func (x *tx) set(b *bbolt.Bucket, key, value []byte) {
	if x.err == nil {
		x.err = b.Put(key, value)
	}
}

func (x *tx) remove(b *bbolt.Bucket, key []byte) {
	if x.err == nil {
		x.err = b.Delete(key)
	}
}

// finish writes what is written once for all operations.
func (x *tx) finish() error {
	for t := range x.changed {
		key := t.key()
		x.set(x.endpoints, key, appendTally(nil, key, t.project, t.id, t.counted()))
	}
	return errors.Join(x.err, putInstant(x.meta, keyTime, x.now))
}

// publish makes the attempts that were begun, and lets the endpoints with other
// lanes that wait look at them, now that all is durable.
func (x *tx) publish() {
	x.lanes.launch(x.begun)
	for t := range x.offered {
		t.nudge()
	}
}

func (t *target) key() []byte { return binary.BigEndian.AppendUint32(nil, t.number) }

func (t *target) keyOf(id domain.ID) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 20), t.number), id[:]...)
}

func (t *target) keyLane(payment domain.ID) []byte {
	return binary.BigEndian.AppendUint32(append(make([]byte, 0, 20), payment[:]...), t.number)
}

func (t *target) keyDue(k dueKey) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 28), t.number), k[:]...)
}

// laneAt is a lane on its way through an operation.
type laneAt struct {
	lane
	target  *target
	payment domain.ID
	key     []byte
	known   bool   // it was in the file
	wasDue  dueKey // where it stands among those due, if it does
	waited  bool
}

func (x *tx) laneOf(t *target, payment domain.ID) (*laneAt, error) {
	l, err := x.tables.laneOf(t, payment)
	if err == nil && l.waited {
		l.wasDue = dueAt(l.due, payment)
	}
	return l, err
}

func (t tables) laneOf(to *target, payment domain.ID) (*laneAt, error) {
	l := &laneAt{target: to, payment: payment, key: to.keyLane(payment)}
	v := t.lane.Get(l.key)
	if v == nil {
		return l, nil
	}
	var err error
	l.lane, err = parseLane(l.key, v)
	l.known, l.waited = true, len(l.line) > 0
	return l, err
}

// inFlight reports whether an attempt of the lane is under way.
func (x *tx) inFlight(l *laneAt) bool { return x.lanes.flying[flight(l.key)] }

// save writes a lane with its place among those due, and offers it to its
// endpoint unless an attempt is under way: the end of that will.
func (x *tx) save(l *laneAt) {
	l.touched = x.now
	waits, is := len(l.line) > 0, dueAt(l.due, l.payment)
	if l.waited && (!waits || is != l.wasDue) {
		x.remove(x.due, l.target.keyDue(l.wasDue))
	}
	if waits && (!l.waited || is != l.wasDue) {
		x.set(x.due, l.target.keyDue(is), nil)
	}
	if waits != l.waited {
		x.count(l.target, func(t *tally) { t.lanes += one(waits) - one(l.waited) })
	}
	if waits && !x.inFlight(l) {
		l.target.offer(is)
		x.offered[l.target] = struct{}{}
	}
	l.known, l.waited, l.wasDue = true, waits, is
	x.set(x.lane, l.key, appendLane(nil, l.key, l.lane))
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// count changes an endpoint's tally.
func (x *tx) count(t *target, change func(*tally)) {
	t.mu.Lock()
	change(&t.tally)
	t.mu.Unlock()
	x.changed[t] = struct{}{}
}

// record finds a delivery.
func (t tables) record(to *target, event domain.ID) (record, bool, error) {
	key := to.keyOf(event)
	for _, b := range [...]*bbolt.Bucket{t.pending, t.settled, t.undelivered} {
		if v := b.Get(key); v != nil {
			d, err := parseRecord(event, key, v)
			return d, true, err
		}
	}
	return record{}, false, nil
}

// pendingRecord finds the record of somebody in line, which has to be there.
func (x *tx) pendingRecord(t *target, event domain.ID) (record, error) {
	key := t.keyOf(event)
	v := x.pending.Get(key)
	if v == nil {
		return record{}, fmt.Errorf("%w: delivery %s is in line and not recorded", errDamaged, event)
	}
	return parseRecord(event, key, v)
}

// put writes a record, which was in the state was ("": nowhere) before.
func (x *tx) put(t *target, d record, was domain.DeliveryState) {
	key := t.keyOf(d.event)
	d.touched = x.now
	to := x.of(d.state)
	if was != "" && x.of(was) != to {
		x.remove(x.of(was), key)
	}
	if was != d.state {
		x.count(t, func(n *tally) {
			n.tell(was, -1)
			n.tell(d.state, 1)
		})
	}
	x.set(to, key, appendRecord(nil, key, d))
}

func (t *tally) tell(s domain.DeliveryState, n int) {
	switch s {
	case domain.DeliveryPending:
		t.pending += n
	case domain.DeliveryGivenUp, domain.DeliveryParked, domain.DeliveryHeld, domain.DeliveryUnconfirmed:
		t.undelivered += n
	}
}

// settle ends a delivery that stood in line.
func (x *tx) settle(t *target, event domain.ID, state domain.DeliveryState) error {
	d, err := x.pendingRecord(t, event)
	if err != nil {
		return err
	}
	d.state = state
	x.put(t, d, domain.DeliveryPending)
	return nil
}

// dueAfter lists up to n of an endpoint's keys among those due, after one.
func (t tables) dueAfter(to *target, after dueKey, n int) []dueKey {
	var keys []dueKey
	prefix := to.key()
	c := t.due.Cursor()
	for k, _ := c.Seek(to.keyDue(after)); bytes.HasPrefix(k, prefix) && len(keys) < n; k, _ = c.Next() {
		if key := dueKey(k[4:]); key != after {
			keys = append(keys, key)
		}
	}
	return keys
}

func putNumber(b *bbolt.Bucket, name string, n uint64) error {
	return b.Put([]byte(name), binary.BigEndian.AppendUint64(nil, n))
}

func putInstant(b *bbolt.Bucket, name string, at domain.Instant) error {
	return putNumber(b, name, uint64(at))
}

func numberIn(b *bbolt.Bucket, name string) uint64 {
	v := b.Get([]byte(name))
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func numberOf(key []byte) uint32 { return binary.BigEndian.Uint32(key) }

func positionIn(b *bbolt.Bucket, name string) eventstore.Position {
	return eventstore.Position(numberIn(b, name))
}
