package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/boltfile"
)

// staging is the group that is being written into the transaction. Each commit is written once it
// has passed the checks, so the next one is checked against it. One staging is used for one group
// after the other.
type staging struct {
	index *claims.Index // nil: of a log that is being built

	durable eventstore.Position
	records []eventstore.Stored   // staged, at the positions after durable
	values  [][]byte              // of the records, as they are stored, without details
	details [][]byte              // of the records, nil for one without
	erased  []eventstore.Position // whose details are removed
	bytes   []byte                // of keys and values, which bbolt needs as long as the transaction
	newest  domain.ID

	meta, heads *bbolt.Bucket
	log         *bbolt.Bucket // of records
	headAt      *bbolt.Cursor // of heads
}

// maxBytes bounds the memory that is kept for the next group.
const maxBytes = 1 << 20

// begin begins a group after the last durable position.
func (g *staging) begin(tx *bbolt.Tx, durable eventstore.Position) {
	clear(g.records)
	clear(g.values)
	clear(g.details)
	g.records, g.values, g.details, g.erased, g.bytes = g.records[:0], g.values[:0], g.details[:0], g.erased[:0], g.bytes[:0]
	if cap(g.bytes) > maxBytes {
		g.bytes = nil
	}
	g.durable, g.newest = durable, newestID(tx)
	g.meta, g.log, g.heads = tx.Bucket(bucketMeta), tx.Bucket(bucketRecords), tx.Bucket(bucketHeads)
	g.log.FillPercent, g.heads.FillPercent = appendFill, appendFill
	g.headAt = g.heads.Cursor()
}

// since is what was appended to the bytes since their length was n.
func (g *staging) since(n int) []byte { return g.bytes[n:len(g.bytes):len(g.bytes)] }

// add decides a commit and sets its result. An error is fatal for the whole
// group.
func (g *staging) add(p *pending) error {
	if p.result.Err = p.ctx.Err(); p.result.Err != nil {
		return nil //nolint:nilerr // it fails this commit alone
	}
	if p.commit.Claim != nil {
		at, err := claimed(g.index, p.name)
		if errors.As(err, new(*claims.DamagedError)) {
			return err
		}
		if at != 0 || err != nil {
			p.result = g.claimed(&p.commit, at, err)
			return nil
		}
	}
	return g.append(p)
}

// claimed is the result of a commit whose key is taken by the record at a
// position, or cannot be looked up.
func (g *staging) claimed(c *eventstore.Commit, at eventstore.Position, err error) eventstore.Appended {
	var r eventstore.Stored
	if err == nil {
		r, err = g.read(at)
	}
	if err == nil {
		err = holdsClaim(r, c.Record.Stream.Project, c.Claim)
	}
	switch {
	case err != nil:
		return eventstore.Appended{Err: err}
	case r.Commit != c.ID:
		return eventstore.Appended{Err: &eventstore.ClaimedError{Value: r}}
	}
	return eventstore.Appended{Stored: r}
}

// append writes the commit after its stream's head, if that is the position it expects.
func (g *staging) append(p *pending) error {
	c := &p.commit
	key, head, err := g.head(c.Record.Stream)
	switch {
	case err != nil:
		p.result.Err = err
		return nil //nolint:nilerr // it fails this commit alone
	case head.position != 0 && head.commit == c.ID:
		p.result.Stored, p.result.Err = g.read(head.position)
		return nil
	}
	if head.position != c.Record.Expect {
		p.result.Err = &eventstore.ConflictError{Stream: c.Record.Stream, Actual: head.position}
		return nil
	}
	r := eventstore.Stored{
		Position: g.durable + eventstore.Position(len(g.records)) + 1,
		Stream:   c.Record.Stream, Sequence: head.sequence + 1, Prev: head.position,
		Commit: c.ID, At: domain.IDTime(c.ID).Time(), Claim: c.Claim, Body: c.Record.Body,
		Details: c.Record.Details, Erases: c.Record.Erases, Event: c.Record.Event,
	}
	erased, err := g.erases(&r)
	if err != nil {
		p.result.Err = err
		return nil //nolint:nilerr // it fails this commit alone
	}
	if err := g.put(&r, key, erased); err != nil {
		return err
	}
	p.result.Stored = r
	g.stage(&r, p.name)
	return nil
}

// stage adds the claim of a record that was put to those in memory, which the next commit is
// checked against. Readers never read positions that are not durable. name is that of its claim, if
// it has one.
func (g *staging) stage(r *eventstore.Stored, name claims.Name) {
	g.records = append(g.records, *r)
	if r.Commit.Compare(g.newest) > 0 {
		g.newest = r.Commit
	}
	if r.Claim != nil && g.index != nil {
		g.index.Add(name, uint64(r.Position))
	}
}

// follows returns the key and the head of the stream of a record that was made elsewhere, or why it
// cannot be the next of the stream.
func (g *staging) follows(r *eventstore.Stored) (key []byte, before head, err error) {
	key, before, err = g.head(r.Stream)
	if err == nil && r.Sequence != before.sequence+1 {
		err = fmt.Errorf("it has sequence %d, the stream's last event before it %d", r.Sequence, before.sequence)
	}
	if err == nil {
		err = eventstore.Commit{ID: r.Commit, Claim: r.Claim, Record: eventstore.Record{
			Stream: r.Stream, Expect: before.position, Body: r.Body, Details: r.Details,
		}}.Validate()
	}
	return key, before, err
}

// durableNow is called when what was staged is durable.
func (g *staging) durableNow() {
	last := &g.records[len(g.records)-1]
	if at := uint64(last.Position); g.index.Full(at) {
		g.index.Seal(at, last.Commit)
	}
}

// undo takes back in memory what was staged in a transaction that was rolled back.
func (g *staging) undo() {
	for i := range g.records {
		if r := &g.records[i]; r.Claim != nil {
			g.index.Remove(nameOf(r.Stream.Project, r.Claim), uint64(r.Position))
		}
	}
}

// put writes a record and its stream's head, and removes the details of the record at erased, 0 for
// none.
func (g *staging) put(r *eventstore.Stored, headKey []byte, erased eventstore.Position) error {
	n := len(g.bytes)
	g.bytes = record.Append(g.bytes, r)
	return g.putValue(r, g.since(n), headKey, erased)
}

// putValue is put with the bytes of the record and its details.
func (g *staging) putValue(r *eventstore.Stored, value, headKey []byte, erased eventstore.Position) error {
	bare, _ := record.Split(value)
	g.values, g.details = append(g.values, bare), append(g.details, r.Details)
	if err := g.putRecord(r.Position, value); err != nil {
		return err
	}
	if erased != 0 {
		if err := g.erase(erased); err != nil {
			return err
		}
	}
	n := len(g.bytes)
	g.bytes = appendHead(g.bytes, headKey, r)
	return g.heads.Put(headKey, g.since(n))
}

func (g *staging) putRecord(at eventstore.Position, value []byte) error {
	n := len(g.bytes)
	g.bytes = appendPosition(g.bytes, at)
	return g.log.Put(g.since(n), value)
}

// erases is the position of the first record of the stream, whose details r erases: 0 if it erases
// none. After an *eventstore.CorruptError it is 0 too if the damage is on the way there; else the
// details may not be found.
func (g *staging) erases(r *eventstore.Stored) (first eventstore.Position, err error) {
	if !r.Erases {
		return 0, nil
	}
	d := record.Decoder{Bodiless: true}
	for prev, left := r.Prev, r.Sequence-1; left > 0; left-- {
		before, err := decodeAt(g.log, &d, prev)
		switch {
		case left == 1:
			return prev, err
		case err != nil:
			return 0, err
		}
		prev = before.Prev
	}
	return r.Position, nil
}

// erase removes the details of the record at a position.
func (g *staging) erase(at eventstore.Position) error {
	g.erased = append(g.erased, at)
	if i := int(at) - int(g.durable) - 1; 0 <= i && i < len(g.records) {
		g.records[i].Details, g.records[i].Event = nil, nil
	}
	value, details := record.Split(g.log.Get(positionKey(at)))
	if len(details) == 0 {
		return nil
	}
	return g.putRecord(at, record.AppendDetails(bytes.Clone(value), at, nil))
}

// head is a stream's head, staged or durable, and the key it is stored under.
func (g *staging) head(s eventstore.Stream) (key []byte, h head, err error) {
	n := len(g.bytes)
	g.bytes = appendHeadKey(g.bytes, s)
	key = g.since(n)
	if k, v := g.headAt.Seek(key); bytes.Equal(k, key) {
		h, err = parseHead(key, v)
	}
	return key, h, err
}

// read reads a record that is staged in this group or durable.
func (g *staging) read(at eventstore.Position) (eventstore.Stored, error) {
	if at > g.durable {
		return g.records[at-g.durable-1], nil
	}
	return recordAt(g.log, at)
}

// head is a value of the bucket of heads: a stream's last record; zero when the
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

func appendHead(to, key []byte, r *eventstore.Stored) []byte {
	n := len(to)
	to = appendPosition(to, r.Position)
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

func positionKey(p eventstore.Position) []byte { return appendPosition(make([]byte, 0, keySize), p) }

func appendPosition(to []byte, p eventstore.Position) []byte {
	return binary.BigEndian.AppendUint64(to, uint64(p))
}
