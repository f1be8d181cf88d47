package store

import (
	"encoding/binary"
	"errors"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Tx is one change of the file. Its methods do not answer errors: the first one
// fails the transaction.
type Tx struct {
	Tables
	Now domain.Instant // by the lanes' clock

	entry *entry // for other nodes; nil: there are none
	err   error
}

// Update changes the file, at an instant by the lanes' clock; 0: nothing is at work
// by it, and the file keeps the last one. It returns once the change is synced, and
// other nodes have it if it is shared.
func (f *File) Update(now domain.Instant, fn func(*Tx) error) error {
	err := f.db.Update(func(btx *bbolt.Tx) error {
		x := &Tx{Tables: tablesOf(btx), Now: now}
		if f.share != nil {
			x.entry = new(entry)
		}
		for _, b := range [...]*bbolt.Bucket{x.lanes, x.due, x.pending, x.settled} {
			b.FillPercent = 0.9 // ids and times rise
		}
		if err := fn(x); err != nil {
			return err
		}
		if now > 0 {
			x.setNumber(keyTime, uint64(now))
		}
		return f.shared(x)
	})
	return f.explain(err)
}

// changeRoom is more than one Update adds to the file, in bytes.
const changeRoom = 4 << 20

// Full reports whether the disk has too little room for an Update.
func (f *File) Full() bool { return errors.Is(f.db.Reserve(changeRoom), boltfile.ErrFull) }

// View reads the file as of its last change.
func (f *File) View(fn func(Tables) error) error {
	return f.explain(f.db.View(func(btx *bbolt.Tx) error { return fn(tablesOf(btx)) }))
}

func (x *Tx) set(b *bbolt.Bucket, key, value []byte) {
	if x.err == nil {
		x.err = b.Put(key, value)
	}
	x.wrote(b, key, value)
}

func (x *Tx) remove(b *bbolt.Bucket, key []byte) {
	if x.err == nil {
		x.err = b.Delete(key)
	}
	x.removed(b, key)
}

// SetAfter notes how far the fan-out got.
func (x *Tx) SetAfter(p eventstore.Position) { x.setNumber(keyAfter, uint64(p)) }

// SetRequestsUnknown notes whether requests may be under way that the file does not have.
func (x *Tx) SetRequestsUnknown(unknown bool) { x.setNumber(keyUnknown, uint64(flag(unknown, 1))) }

// SetHighest notes the highest number of an endpoint.
func (x *Tx) SetHighest(n Number) { x.setNumber(keyEndpoints, uint64(n)) }

func (x *Tx) setNumber(name string, n uint64) {
	x.set(x.meta, []byte(name), binary.BigEndian.AppendUint64(nil, n))
}

// PutEndpoint writes an endpoint.
func (x *Tx) PutEndpoint(n Number, project, id string, counted Tally) {
	key := n.key()
	x.set(x.endpoints, key, appendTally(nil, key, project, id, counted))
}

// SaveLane writes a lane and its key among those that wait. It answers that
// key, whether the lane waits, and whether it did before.
func (x *Tx) SaveLane(l *LaneAt) (at DueKey, waits, waited bool) {
	l.touched = x.Now
	waits, waited, at = len(l.Line) > 0, l.waited, DueAt(l.Due, l.Payment)
	if waited && (!waits || at != l.wait) {
		x.remove(x.due, l.Number.keyDue(l.wait))
	}
	if waits && (!waited || at != l.wait) {
		x.set(x.due, l.Number.keyDue(at), nil)
	}
	l.Known, l.waited, l.wait = true, waits, at
	x.PutLane(l.Key(), l.Lane)
	return at, waits, waited
}

// PutLane writes a lane and leaves its key among those that wait as it is.
func (x *Tx) PutLane(k LaneKey, l Lane) { x.set(x.lanes, k[:], appendLane(nil, k[:], l)) }

// PutRecord writes a delivery, which was in the state before ("": not recorded).
func (x *Tx) PutRecord(n Number, d Record, before domain.DeliveryState) {
	key := n.keyOf(d.Event)
	d.touched = x.Now
	to := x.of(d.State)
	if before != "" && x.of(before) != to {
		x.remove(x.of(before), key)
	}
	x.set(to, key, appendRecord(nil, key, d))
}
