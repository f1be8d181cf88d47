package bolt

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// groupSize is that of a value in the bucket of groups: what a Group is without its records,
// and how many there are.
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
		g.Records, err = copyRecords(log, g.First, end)
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

// copyRecords are the records from one position to another as they are stored.
func copyRecords(log *bbolt.Bucket, from, to eventstore.Position) (values [][]byte, err error) {
	for at := from; at <= to; at++ {
		if _, err := readRecord(log, at); err != nil {
			return nil, err
		}
		values = append(values, bytes.Clone(log.Get(positionKey(at))))
	}
	return values, nil
}

// recordSum is the SHA-256 of a record as it is stored, zero if there is none.
func recordSum(log *bbolt.Bucket, at eventstore.Position) (sum [sha256.Size]byte) {
	if v := log.Get(positionKey(at)); v != nil {
		sum = sha256.Sum256(v)
	}
	return sum
}
