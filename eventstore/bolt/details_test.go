package bolt

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

func detailed(i int) eventstore.Commit {
	c := commitOf(i, 0)
	c.Record.Details = append(make([]byte, eventstore.SaltSize), `{"description":"order-1042","payload":{}}`...)
	return c
}

// Verify finds details that are damaged, or of a record that was written without.
func TestVerifyDetails(t *testing.T) {
	t.Parallel()
	bare := func(records *bbolt.Bucket, at eventstore.Position) []byte {
		b, _ := record.Split(records.Get(positionKey(at)))
		return bytes.Clone(b)
	}
	for what, changed := range map[string]func(records *bbolt.Bucket) (at eventstore.Position, value []byte){
		"a wrong bit": func(b *bbolt.Bucket) (eventstore.Position, []byte) {
			v := bytes.Clone(b.Get(positionKey(2)))
			v[len(v)-5] ^= 1
			return 2, v
		},
		"those of another position": func(b *bbolt.Bucket) (eventstore.Position, []byte) {
			return 2, record.AppendDetails(bare(b, 2), 3, detailed(2).Record.Details)
		},
		"too short": func(b *bbolt.Bucket) (eventstore.Position, []byte) {
			return 2, append(bare(b, 2), 1, 0, 1)
		},
		"without their size": func(b *bbolt.Bucket) (eventstore.Position, []byte) { return 2, bare(b, 2) },
		"longer than they are": func(b *bbolt.Bucket) (eventstore.Position, []byte) {
			return 2, binary.BigEndian.AppendUint16(bare(b, 2), 60000)
		},
		"of a record without": func(b *bbolt.Bucket) (eventstore.Position, []byte) {
			return 1, record.AppendDetails(bare(b, 1), 1, detailed(1).Record.Details)
		},
	} {
		path := newLog(t)
		s := reopened(t, path)
		for i, c := range []eventstore.Commit{commitOf(0, 0), detailed(1), detailed(2)} {
			if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
				t.Fatal(i, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(func(tx *bbolt.Tx) error {
			b := tx.Bucket(bucketRecords)
			at, value := changed(b)
			return b.Put(positionKey(at), slices.Clip(value))
		}), db.Close()); err != nil {
			t.Fatal(err)
		}
		for _, verify := range []func(*Store) error{
			func(s *Store) error { return s.Verify(t.Context()) },
			func(s *Store) error { return s.VerifyStructure(t.Context()) },
		} {
			s := reopened(t, path)
			if err := verify(s); !errors.As(err, new(*eventstore.CorruptError)) {
				t.Errorf("details that are %s: %v", what, err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
