package bolt

import (
	"bytes"
	"errors"
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
	for what, change := range map[string]func(details *bbolt.Bucket) error{
		"a wrong bit": func(b *bbolt.Bucket) error {
			v := bytes.Clone(b.Get(positionKey(2)))
			v[len(v)-3] ^= 1
			return b.Put(positionKey(2), v)
		},
		"those of another position": func(b *bbolt.Bucket) error { return b.Put(positionKey(2), b.Get(positionKey(3))) },
		"too short":                 func(b *bbolt.Bucket) error { return b.Put(positionKey(2), []byte{1}) },
		"of a record without": func(b *bbolt.Bucket) error {
			return b.Put(positionKey(1), record.AppendDetails(nil, 1, detailed(1).Record.Details))
		},
		"of a record that is not there": func(b *bbolt.Bucket) error {
			return b.Put(positionKey(9), record.AppendDetails(nil, 9, detailed(9).Record.Details))
		},
		"without a position": func(b *bbolt.Bucket) error { return b.Put([]byte("x"), []byte("y")) },
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
		if err := errors.Join(db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(bucketDetails)) }), db.Close()); err != nil {
			t.Fatal(err)
		}
		if err := reopened(t, path).Verify(t.Context()); !errors.As(err, new(*eventstore.CorruptError)) {
			t.Errorf("details that are %s: %v", what, err)
		}
	}
}
