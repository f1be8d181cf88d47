package bolt

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// The bounds of a replicated group. One commit alone always fits.
const (
	MaxGroupCommits = 256
	MaxGroupBytes   = 384 << 10 // of bodies

	// KeptGroups is how many of the newest groups a file can make again.
	KeptGroups = 1 << 16
)

// Nonce names the exact bytes of a group.
type Nonce [16]byte

// Group is the commits of one transaction as all nodes of a cluster have them. Staging
// sets First, Before and Records; Replicate sets the rest before it returns nil.
type Group struct {
	Number uint64 // the group's place in LOG
	Nonce  Nonce
	Writer domain.ID // the node that staged it
	At     int64     // when, in Unix ms

	First   eventstore.Position // of the first record
	Before  [sha256.Size]byte   // SHA-256 of the record before First as it is stored; zero for none
	Records [][]byte            // as they are stored; valid until Replicate returns. None: all commits were refused

	// End: this is LOG's last group. From here on its writer's file goes on alone.
	End bool
}

// MismatchError: a group does not follow from this file. The file and the group are
// of different histories, and nothing may be written.
type MismatchError struct {
	Number uint64
	Reason string
	From   eventstore.Position // of this file's first record that LOG does not have; 0: not known
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("group %d of LOG does not follow from this event log: %s", e.Number, e.Reason)
}

// undoneError takes a staged group back.
type undoneError struct{ err error }

func (e *undoneError) Error() string { return e.err.Error() }

// fits is how many of the first commits one transaction takes: all, unless the
// group is replicated.
func (s *Store) fits(commits []*pending) int {
	if s.agree == nil {
		return len(commits)
	}
	n, size := 0, 0
	for n < len(commits) && n < MaxGroupCommits {
		if size += len(commits[n].commit.Record.Body); n > 0 && size > MaxGroupBytes {
			break
		}
		n++
	}
	return n
}

// replicate asks the other nodes for what is staged, also for refusals alone: they
// are based on this file, which others may have left behind.
func (s *Store) replicate() error {
	if s.agree == nil {
		return nil
	}
	g := &Group{First: s.tail.Durable() + 1, Records: s.staging.values}
	g.Before = recordSum(s.staging.log, s.tail.Durable())
	if err := s.agree(g); err != nil {
		return &undoneError{err}
	}
	if len(g.Records) == 0 {
		return nil
	}
	return s.note(g)
}

// note writes the numbers of a group into the transaction with its records.
func (s *Store) note(g *Group) error {
	if err := s.staging.groups.Put(slot(g.Number), groupValue(g)); err != nil {
		return err
	}
	s.applied.number = g.Number // an error from here on ends the store
	return s.staging.meta.Put(keyGroups, s.applied.value())
}

// Apply makes a group of another node durable. It must follow from this file, else
// the error is a *MismatchError and nothing is changed. Other errors are those of
// Append. It must not be called while Replicate is.
func (s *Store) Apply(g *Group) error {
	return s.take(func() error {
		if err := s.stageGroup(g); err != nil {
			return err
		}
		return s.note(g)
	})
}

// Extend makes records durable that follow the last one in another node's file, while
// this one follows no LOG yet: see After. Errors are those of Apply.
func (s *Store) Extend(g *Group) error {
	return s.take(func() error {
		if !s.applied.of.IsZero() {
			return g.mismatch("this log is in a cluster, and gets groups")
		}
		return s.stageRecords(g)
	})
}

// take writes what is staged of another node's.
func (s *Store) take(stage func() error) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.agree == nil {
		return ErrClustered
	}
	n, err := s.write(stage)
	s.saveReplaced()
	if n > 0 {
		s.counted(n, 0)
	}
	return err
}

// Check is Apply without making anything durable.
func (s *Store) Check(g *Group) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	_, err := s.write(func() error { return cmp.Or(s.stageGroup(g), error(&undoneError{})) })
	return err
}

// mismatch takes the staged group back.
func (g *Group) mismatch(format string, args ...any) error {
	return &undoneError{&MismatchError{Number: g.Number, Reason: fmt.Sprintf(format, args...)}}
}

// stageGroup stages a group of LOG.
func (s *Store) stageGroup(g *Group) error {
	switch {
	case s.applied.of.IsZero():
		return g.mismatch("this log is in no cluster")
	case g.Number <= s.applied.number:
		return g.mismatch("group %d was the last one", s.applied.number)
	}
	return s.stageRecords(g)
}

// stageRecords stages the records of a group.
func (s *Store) stageRecords(g *Group) error {
	mismatch, staged := g.mismatch, &s.staging
	switch {
	case g.First != staged.durable+1:
		return mismatch("it begins at position %d, this log ends at %d", g.First, staged.durable)
	case g.Before != recordSum(staged.log, staged.durable):
		return mismatch("it follows another record at position %d", staged.durable)
	}
	d := record.Decoder{}
	for i, value := range g.Records {
		r, err := d.Decode(g.First+eventstore.Position(i), value)
		if err != nil {
			return mismatch("%v", err)
		}
		if staged.readable != nil {
			if err := staged.readable(&r); err != nil {
				return &undoneError{err}
			}
		}
		key, head, err := staged.head(r.Stream)
		if err != nil {
			return &undoneError{err}
		}
		if r.Prev != head.position || r.Sequence != head.sequence+1 {
			return mismatch("the record at position %d does not follow the one before it in its stream", r.Position)
		}
		c := eventstore.Commit{ID: r.Commit, Record: eventstore.Record{Stream: r.Stream, Body: r.Body}, Claim: r.Claim}
		if err := c.Validate(); err != nil {
			return mismatch("%v", err)
		}
		p := pending{}
		if r.Claim != nil {
			p.name = nameOf(r.Stream.Project, r.Claim)
			switch at, err := staged.index.find(p.name, r.Claim); {
			case err != nil:
				return &undoneError{err}
			case at != 0:
				return mismatch("the claim of the record at position %d was made at position %d", r.Position, at)
			}
		}
		if err := staged.putValue(&r, bytes.Clone(value), key); err != nil {
			return err
		}
		if err := staged.stage(&r, p.name); err != nil {
			return err
		}
	}
	return nil
}

// Compare checks that a group is the one of its number in the file, if the file still
// knows that one: else the error is a *MismatchError.
func (s *Store) Compare(g *Group) error {
	return s.view(0, func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketGroups).Get(slot(g.Number))
		own, _, ok := parseGroup(v)
		switch {
		case v != nil && !ok:
			return unreadable(g.Number)
		case v != nil && own.Number > g.Number: // a newer one is in its slot
		case v != nil && own.Number == g.Number:
			if own.Nonce != g.Nonce {
				return &MismatchError{g.Number, fmt.Sprintf("from position %d on it has another group of that number", own.First), own.First}
			}
		case len(g.Records) > 0:
			return &MismatchError{g.Number, fmt.Sprintf("it begins at position %d, and this log has no records of that number", g.First), g.First}
		case g.First > 0 && g.Before != recordSum(tx.Bucket(bucketRecords), g.First-1):
			return &MismatchError{g.Number, fmt.Sprintf("it follows another record at position %d", g.First-1), g.First - 1}
		case g.First > 0 && endBefore(tx.Bucket(bucketGroups), g) != g.First:
			return &MismatchError{g.Number, fmt.Sprintf("it follows position %d, and this log had others by then", g.First-1), g.First}
		}
		return nil
	})
}

// endBefore is the position behind the groups before this one, by the file or, if it has
// forgotten them, by the group itself.
func endBefore(groups *bbolt.Bucket, g *Group) eventstore.Position {
	c := groups.Cursor()
	c.Seek(slot(g.Number))
	k, v := c.Prev()
	if k == nil { // the slots are a ring
		_, v = c.Last()
	}
	own, commits, ok := parseGroup(v)
	if !ok || own.Number >= g.Number {
		return g.First
	}
	return own.First + eventstore.Position(commits)
}

func unreadable(number uint64) error {
	return &eventstore.CorruptError{Reason: fmt.Sprintf("its entry of group %d makes no sense", number)}
}

// recordSum is the SHA-256 of a record as it is stored, zero if there is none.
func recordSum(log *bbolt.Bucket, at eventstore.Position) (sum [sha256.Size]byte) {
	if v := log.Get(positionKey(at)); v != nil {
		sum = sha256.Sum256(v)
	}
	return sum
}

// applied says which groups of which LOG a file has; zero: it is in no cluster.
type applied struct {
	of     domain.ID // the LOG's id
	number uint64    // of the last group with records
}

func (a applied) value() []byte { return binary.BigEndian.AppendUint64(bytes.Clone(a.of[:]), a.number) }

func appliedOf(meta *bbolt.Bucket) (a applied, ok bool) {
	b := meta.Get(keyGroups)
	if len(b) == 0 {
		return a, true
	}
	if len(b) != len(a.of)+8 {
		return a, false
	}
	a = applied{domain.ID(b), binary.BigEndian.Uint64(b[len(a.of):])}
	return a, !a.of.IsZero()
}

// Replica is how far a file has come.
type Replica struct {
	Log     domain.ID // the id of the LOG that it follows; zero: none
	Heir    domain.ID // the node whose file goes on alone, since LOG has ended; zero: it has not
	Applied uint64    // the last group with records that is in the file
	Last    eventstore.Position
	Sum     [sha256.Size]byte // SHA-256 of the last record as it is stored
}

// Replica is how far the file has come, as it is durable.
func (s *Store) Replica() (r Replica, err error) {
	s.writing.Lock() // no group is under way
	defer s.writing.Unlock()
	if err := s.Err(); err != nil {
		return r, err
	}
	r = Replica{Log: s.applied.of, Applied: s.applied.number, Last: s.tail.Durable()}
	err = s.view(r.Last, func(tx *bbolt.Tx) error {
		r.Sum = recordSum(tx.Bucket(bucketRecords), r.Last)
		copy(r.Heir[:], tx.Bucket(bucketMeta).Get(keyHeir))
		return nil
	})
	return r, err
}

// End is what the next group follows: the position of its first record, and the SHA-256 of
// the record before that.
func (s *Store) End() (first eventstore.Position, before [sha256.Size]byte, err error) {
	last, err := s.tail.Last()
	if err == nil {
		err = s.view(last, func(tx *bbolt.Tx) error {
			before = recordSum(tx.Bucket(bucketRecords), last)
			return nil
		})
	}
	return last + 1, before, err
}

// Join makes the file follow a LOG from the group of this number on; what it holds
// is what LOG's earlier groups made. A file that follows a LOG stays with it.
func (s *Store) Join(log domain.ID, number uint64) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	switch {
	case s.agree == nil:
		return ErrClustered
	case s.applied.of == log:
		return nil
	case !s.applied.of.IsZero():
		return clustered(s.path, s.applied.of)
	}
	if err := s.unwritable(); err != nil {
		return err
	}
	joined := applied{log, number}
	if err := s.putMeta(keyGroups, joined.value()); err != nil {
		return err
	}
	s.applied = joined
	return nil
}

// putMeta makes a value durable; writing is held.
func (s *Store) putMeta(key, value []byte) error {
	if err := s.update(func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(key, value) }); err != nil {
		s.fail(s.broke(err))
		return s.Err()
	}
	return nil
}

// Conclude notes that LOG has ended, and which node's file goes on alone.
func (s *Store) Conclude(heir domain.ID) error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	return s.putMeta(keyHeir, heir[:])
}

// Leave makes the file follow no LOG any more. It keeps its records and forgets the
// groups that they came in.
func (s *Store) Leave() error {
	if !s.awaitSound() {
		return eventstore.ErrClosed
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.unwritable(); err != nil {
		return err
	}
	err := s.update(func(tx *bbolt.Tx) error {
		if err := tx.DeleteBucket(bucketGroups); err != nil {
			return err
		}
		if _, err := tx.CreateBucket(bucketGroups); err != nil {
			return err
		}
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Delete(keyGroups), meta.Delete(keyHeir))
	})
	if err != nil {
		s.fail(s.broke(err))
		return s.Err()
	}
	s.applied = applied{}
	return nil
}

// After is what the file has after a position, at most so many records and bytes of them,
// or one record, for Extend of a file that ends there. If this file ends before the
// position, it fits no file.
func (s *Store) After(ctx context.Context, p eventstore.Position, records, size int) (*Group, error) {
	durable, err := s.tail.Last()
	if err := cmp.Or(ctx.Err(), err); err != nil {
		return nil, err
	}
	g := &Group{First: min(p, durable) + 1}
	return g, s.view(p, func(tx *bbolt.Tx) (err error) {
		log := tx.Bucket(bucketRecords)
		g.Before = recordSum(log, g.First-1)
		g.Records, err = copyRecords(log, g.First, min(durable, g.First+eventstore.Position(records)-1), size)
		return err
	})
}

// copyRecords are the records from one position to another as they are stored, at most so
// many bytes of them, or one.
func copyRecords(log *bbolt.Bucket, from, to eventstore.Position, size int) (values [][]byte, err error) {
	for at := from; at <= to; at++ {
		if _, err := readRecord(log, at); err != nil {
			return nil, err
		}
		value := log.Get(positionKey(at))
		if size -= len(value); size < 0 && len(values) > 0 {
			break
		}
		values = append(values, bytes.Clone(value))
	}
	return values, nil
}

// Share makes the groups of a store that was on its own those of a cluster: Replicate,
// Replicated, Admit, Readable and Newest of the options hold from the next group on.
func (s *Store) Share(o Options) {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.agree, s.staging.admit, s.staging.readable, s.staging.observe = o.Replicate, o.Admit, o.Readable, o.Newest
	if o.Replicated != nil {
		s.agreed = o.Replicated
	}
}

// Detach makes a copy of a cluster's file follow no LOG: see Leave.
func Detach(path string) error {
	s, err := Open(path, Options{Replicate: func(*Group) error { return ErrClustered }})
	if err != nil {
		return err
	}
	if !s.applied.of.IsZero() {
		err = s.Leave()
	}
	return errors.Join(err, s.Close())
}

const groupSize = 60

func slot(number uint64) []byte { return binary.BigEndian.AppendUint16(nil, uint16(number)) }

func groupValue(g *Group) []byte {
	b := make([]byte, 0, groupSize)
	b = binary.BigEndian.AppendUint64(b, g.Number)
	b = binary.BigEndian.AppendUint64(b, uint64(g.First))
	b = binary.BigEndian.AppendUint32(b, uint32(len(g.Records)))
	b = binary.BigEndian.AppendUint64(b, uint64(g.At))
	return append(append(b, g.Nonce[:]...), g.Writer[:]...)
}

// parseGroup reads a value of the bucket of groups; commits is how many it has.
func parseGroup(b []byte) (g *Group, commits int, ok bool) {
	if len(b) != groupSize {
		return nil, 0, false
	}
	g = &Group{
		Number: binary.BigEndian.Uint64(b), First: eventstore.Position(binary.BigEndian.Uint64(b[8:])),
		At: int64(binary.BigEndian.Uint64(b[20:])), Nonce: Nonce(b[28:]), Writer: domain.ID(b[44:]),
	}
	return g, int(binary.BigEndian.Uint32(b[16:])), true
}

// Group makes a group again that is in the file, byte for byte; ok is false if it
// has no records or is not one of the newest KeptGroups.
func (s *Store) Group(ctx context.Context, number uint64) (g *Group, ok bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	durable, err := s.tail.Last()
	if err != nil {
		return nil, false, err
	}
	err = s.view(0, func(tx *bbolt.Tx) error {
		v := tx.Bucket(bucketGroups).Get(slot(number))
		if v == nil {
			return nil
		}
		var commits int
		if g, commits, ok = parseGroup(v); !ok {
			return unreadable(number)
		}
		end := g.First + eventstore.Position(commits) - 1
		if ok = g.Number == number && end <= durable; !ok {
			return nil
		}
		log := tx.Bucket(bucketRecords)
		g.Before = recordSum(log, g.First-1)
		g.Records, err = copyRecords(log, g.First, end, math.MaxInt)
		return err
	})
	return g, ok && err == nil, err
}

// verifyGroups checks that the groups follow each other up to the last record. Those
// without records are not in the file.
func (s *Store) verifyGroups() error {
	wrong := func(number uint64) error {
		return &eventstore.CorruptError{Reason: fmt.Sprintf("its entry of group %d does not fit those before it", number)}
	}
	return s.view(0, func(tx *bbolt.Tx) error {
		a, ok := appliedOf(tx.Bucket(bucketMeta))
		if !ok {
			return wrong(0)
		}
		last, _ := tx.Bucket(bucketRecords).Cursor().Last()
		var end eventstore.Position
		found := false
		for n := a.number - min(a.number, KeptGroups-1); n <= a.number; n++ {
			v := tx.Bucket(bucketGroups).Get(slot(n))
			g, commits, ok := parseGroup(v)
			switch {
			case v == nil, ok && g.Number+KeptGroups <= a.number: // no records
			case !ok, g.Number != n && g.Number > a.number, commits == 0, found && g.First != end:
				return wrong(n)
			case g.Number == n:
				end, found = g.First+eventstore.Position(commits), true
			}
		}
		if found && (len(last) != keySize || eventstore.Position(binary.BigEndian.Uint64(last))+1 != end) {
			return wrong(a.number)
		}
		return nil
	})
}
