package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/boltfile"
)

// errNothing ends a transaction in which every commit was refused.
var errNothing = errors.New("nothing to write")

// commitAll is the committer: it commits group after group until the queue is
// closed and empty.
func (s *Store) commitAll() {
	var took time.Duration
	for {
		group := s.queue.take(took)
		if len(group) == 0 {
			return
		}
		if !s.awaitSound() {
			refuse(group, eventstore.ErrClosed)
			s.queue.answer(group)
			continue
		}
		began := time.Now()
		s.writing.Lock()
		replaced := s.commitGroup(group)
		took = time.Since(began)
		s.queue.answer(group)
		if replaced != nil {
			s.save(replaced)
		}
		s.writing.Unlock()
	}
}

// awaitSound waits until it is known which pages are free; false: the store was
// closed before.
func (s *Store) awaitSound() bool {
	select {
	case <-s.sound:
		return true
	default:
	}
	select {
	case <-s.sound:
		return true
	case <-s.closing:
		return false
	}
}

// commitGroup sets the result of every commit in the group. An error means that
// the file lost its name, and with it all that is in it would be lost at the
// end of the process.
func (s *Store) commitGroup(group []*pending) (replaced *boltfile.ReplacedError) {
	if err := s.stopped(); err != nil {
		refuse(group, err)
		return nil
	}
	if s.space.Low() {
		refuse(group, eventstore.ErrFull)
		return nil
	}
	var g *staging
	err := s.update(func(tx *bbolt.Tx) error {
		// Only the committer moves durable, so it may read it unlocked.
		g = stage(tx, s.tail.durable, s.claims, s.spans, &s.room)
		for _, p := range group {
			if err := g.add(p); err != nil {
				return err
			}
		}
		if len(g.records) == 0 {
			return errNothing
		}
		s.slowDown()
		return g.meta.Put(keyNewest, g.newest[:])
	})
	switch {
	case errors.Is(err, errNothing):
		return nil
	case errors.As(err, &replaced):
		refuse(group, s.replaced(replaced))
		return replaced
	case err != nil:
		s.fail(s.broke(err))
		refuse(group, s.Err())
		return nil
	}
	s.slowDown()
	s.tail.publish(g.records)
	s.spans = g.spans
	s.claims.durable(&g.records[len(g.records)-1])
	return nil
}

// slowDown stands for what a sync takes longer on the disk of
// Options.SyncDelay. bbolt syncs the pages of a group, then the page that
// makes them count.
func (s *Store) slowDown() {
	if s.slower > 0 {
		<-time.After(s.slower)
	}
}

func refuse(group []*pending, err error) {
	for _, p := range group {
		p.stored, p.err = eventstore.Stored{}, err
	}
}

// update runs fn in a write transaction. A panic of bbolt, a fault in its
// mapped file, and a file that is not the one at its path any more are errors.
func (s *Store) update(fn func(*bbolt.Tx) error) error {
	var id uint64
	err := s.file.Update(func(tx *bbolt.Tx) error {
		if id = uint64(tx.ID()); id != s.transaction+1 {
			return &boltfile.DamagedError{Reason: fmt.Sprintf("it was written over while it was open: its last transaction is %d, not %d", id-1, s.transaction)}
		}
		return fn(tx)
	})
	if err != nil {
		return err
	}
	s.transaction = id
	return s.file.InPlace()
}

// staging is one group on its way into the file. Each commit is written into
// the transaction as soon as it has passed the checks, so the next one is
// checked against it.
type staging struct {
	*groupRoom

	durable eventstore.Position

	meta, log, heads *bbolt.Bucket
	headAt           *bbolt.Cursor // of heads
	index            *indexes
	spans            spans
	newest           domain.ID
}

// groupRoom is the committer's memory for one group after the other.
type groupRoom struct {
	records []eventstore.Stored // staged, at the positions after durable
	bytes   []byte              // of keys and values, which bbolt needs as long as the transaction
}

// maxRoom bounds the bytes that are kept for the next group.
const maxRoom = 1 << 20

func stage(tx *bbolt.Tx, durable eventstore.Position, index *indexes, kept spans, room *groupRoom) *staging {
	clear(room.records)
	room.records, room.bytes = room.records[:0], room.bytes[:0]
	if cap(room.bytes) > maxRoom {
		room.bytes = nil
	}
	g := &staging{
		groupRoom: room, durable: durable, newest: newestID(tx), index: index, spans: kept,
		meta: tx.Bucket(bucketMeta), log: tx.Bucket(bucketRecords), heads: tx.Bucket(bucketHeads),
	}
	g.log.FillPercent, g.heads.FillPercent = appendFill, appendFill
	g.headAt = g.heads.Cursor()
	return g
}

// since is what was appended to the bytes since they were so many.
func (r *groupRoom) since(n int) []byte { return r.bytes[n:len(r.bytes):len(r.bytes)] }

// add sets the commit's result. An error is fatal for the whole group.
func (g *staging) add(p *pending) error {
	if p.err = p.ctx.Err(); p.err != nil {
		return nil //nolint:nilerr // it fails this commit alone
	}
	c := &p.commit
	if c.Claim != nil {
		at, err := g.index.find(p.claim, c.Claim)
		switch {
		case err != nil && errors.As(err, new(*claims.DamagedError)):
			return err
		case err != nil:
			p.err = err
			return nil //nolint:nilerr // it fails this commit alone
		case at != 0:
			r, err := g.readClaim(at, c)
			switch {
			case err != nil:
				p.err = err
			case r.Commit == c.ID:
				p.stored = r
			default:
				p.err = &eventstore.ClaimedError{Value: r}
			}
			return nil
		}
	}
	key, head, err := g.head(c.Record.Stream)
	switch {
	case err != nil:
		p.err = err
		return nil //nolint:nilerr // it fails this commit alone
	case head.position != 0 && head.commit == c.ID:
		p.stored, p.err = g.read(head.position)
		return nil
	case head.position != c.Record.Expect:
		p.err = &eventstore.ConflictError{Stream: c.Record.Stream, Actual: head.position}
		return nil
	}
	p.stored, err = g.write(p, key, head)
	return err
}

func (g *staging) write(p *pending, key []byte, head head) (eventstore.Stored, error) {
	c := &p.commit
	r := eventstore.Stored{
		Position: g.durable + eventstore.Position(len(g.records)) + 1,
		Stream:   c.Record.Stream, Sequence: head.sequence + 1, Prev: head.position,
		Commit: c.ID, At: domain.IDTime(c.ID).Time(), Claim: c.Claim, Body: c.Record.Body, Event: c.Record.Event,
	}
	if c.ID.Compare(g.newest) > 0 {
		g.newest = c.ID
	}
	if err := g.put(r, key); err != nil {
		return r, err
	}
	g.records = append(g.records, r)
	return r, g.claim(p, r)
}

// claim notes in memory that the record claims its key; no reader sees that
// before the record is durable.
func (g *staging) claim(p *pending, r eventstore.Stored) error {
	if r.Claim == nil {
		return nil
	}
	index := g.index.of(r.Claim)
	index.Add(p.claim, uint64(r.Position))
	if r.Claim.Forever {
		return nil
	}
	var begun bool
	if g.spans, begun = g.spans.claim(g.newest, r.Position); !begun {
		return nil
	}
	index.Forget(uint64(g.spans.first()))
	return g.meta.Put(keySpans, g.spans.value())
}

// put writes a record and its stream's head.
func (g *staging) put(r eventstore.Stored, key []byte) error {
	n := len(g.bytes)
	g.bytes = appendRecord(g.bytes, &r)
	value := g.since(n)
	n = len(g.bytes)
	g.bytes = appendPositionKey(g.bytes, r.Position)
	if err := g.log.Put(g.since(n), value); err != nil {
		return err
	}
	n = len(g.bytes)
	g.bytes = appendHead(g.bytes, key, r)
	return g.heads.Put(key, g.since(n))
}

// head answers a stream's head, staged or durable, and the key it stands at.
func (g *staging) head(s eventstore.Stream) (key []byte, h head, err error) {
	n := len(g.bytes)
	g.bytes = appendHeadKey(g.bytes, s)
	key = g.since(n)
	if k, v := g.headAt.Seek(key); bytes.Equal(k, key) {
		h, err = parseHead(key, v)
	}
	return key, h, err
}

// read answers a record that a check met: staged in this group or durable.
func (g *staging) read(at eventstore.Position) (eventstore.Stored, error) {
	if at > g.durable {
		return g.records[at-g.durable-1], nil
	}
	return readRecord(g.log, at)
}

func (g *staging) readClaim(at eventstore.Position, c *eventstore.Commit) (eventstore.Stored, error) {
	r, err := g.read(at)
	if err == nil {
		err = holdsClaim(r, c.Record.Stream.Project, c.Claim)
	}
	return r, err
}

// head is what the heads bucket tells of a stream's last record; zero when the
// stream does not exist.
type head struct {
	position eventstore.Position
	sequence uint64
	commit   domain.ID
}

const headSize = 36

func headKey(s eventstore.Stream) []byte { return appendHeadKey(nil, s) }

func appendHeadKey(to []byte, s eventstore.Stream) []byte {
	to = append(append(to, s.Kind...), 0)
	to = append(append(to, s.ID...), 0)
	return append(to, s.Project...)
}

func appendHead(to, key []byte, r eventstore.Stored) []byte {
	n := len(to)
	to = binary.BigEndian.AppendUint64(to, uint64(r.Position))
	to = binary.BigEndian.AppendUint64(to, r.Sequence)
	to = append(to, r.Commit[:]...)
	return binary.BigEndian.AppendUint32(to, boltfile.Sum(key, to[n:]))
}

func headOf(heads *bbolt.Bucket, key []byte) (head, error) {
	v := heads.Get(key)
	if v == nil {
		return head{}, nil
	}
	return parseHead(key, v)
}

func parseHead(key, v []byte) (head, error) {
	if len(v) != headSize || boltfile.Sum(key, v[:headSize-4]) != binary.BigEndian.Uint32(v[headSize-4:]) {
		return head{}, &eventstore.CorruptError{Reason: fmt.Sprintf("the entry of stream %q among the heads does not match its checksum", key)}
	}
	return head{
		position: eventstore.Position(binary.BigEndian.Uint64(v)),
		sequence: binary.BigEndian.Uint64(v[8:]),
		commit:   domain.ID(v[16:]),
	}, nil
}

func positionKey(p eventstore.Position) []byte { return appendPositionKey(make([]byte, 0, 8), p) }

func appendPositionKey(to []byte, p eventstore.Position) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(p))
}
