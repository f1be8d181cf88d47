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
	"payledger/eventstore/boltfile"
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

// spoilRecord flips a bit of the last byte of a record's body.
func spoilRecord(t *testing.T, s *Store, at eventstore.Position) {
	t.Helper()
	s.writing.Lock()
	defer s.writing.Unlock()
	must(t, s.update(func(tx *bbolt.Tx) error {
		records := tx.Bucket(bucketRecords)
		v := bytes.Clone(records.Get(positionKey(at)))
		bare, _ := record.Split(v)
		v[len(bare)-1] ^= 1
		return records.Put(positionKey(at), v)
	}))
}

// erasing are three commits of one stream: with details, one after it, and one that erases them.
func erasing() (made, second, erase eventstore.Commit) {
	made = detailed(1)
	next := func(i int, after eventstore.Position) eventstore.Commit {
		c := commitOf(i, after)
		c.Record.Stream = made.Record.Stream
		return c
	}
	second, erase = next(2, 1), next(3, 2)
	erase.Record.Erases = true
	return made, second, erase
}

// A commit that erases details fails alone if damage to an earlier record of its stream would keep
// them from being found.
func TestErasingOverDamage(t *testing.T) {
	t.Parallel()
	for _, damaged := range []eventstore.Position{1, 2} {
		s := reopened(t, newLog(t))
		made, second, erase := erasing()
		for _, a := range s.Append(t.Context(), made, second) {
			must(t, a.Err)
		}
		spoilRecord(t, s, damaged)
		var corrupt *eventstore.CorruptError
		if _, err := eventstore.AppendOne(t.Context(), s, erase); !errors.As(err, &corrupt) || corrupt.Position != damaged {
			t.Errorf("record %d is damaged: it is answered with %v", damaged, err)
		}
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(9, 0)); err != nil {
			t.Errorf("record %d is damaged: the next commit is answered with %v", damaged, err)
		}
	}
}

// A log that follows others has an erasure although earlier records of the stream are damaged in it,
// and the damage is reported. Only damage on the way to the details keeps them.
func TestExtendedByAnErasureOverDamage(t *testing.T) {
	t.Parallel()
	for damaged, kept := range map[eventstore.Position]bool{1: false, 2: true} {
		p := &publisher{}
		s := openPublishing(t, newLog(t), p.publish)
		var reported []error
		path := newLog(t)
		to, err := open(path, false, boltfile.AtOnce) // without the check in the background, which may find it too
		must(t, err)
		to.options = Options{MinFree: 1, Report: func(err error) { reported = append(reported, err) }}
		t.Cleanup(func() { _ = to.Close() })
		made, second, erase := erasing()
		for _, c := range []eventstore.Commit{made, second, commitOf(8, 0), erase, commitOf(9, 0)} {
			_, err := eventstore.AppendOne(t.Context(), s, c)
			must(t, err)
		}
		for i, b := range p.batches {
			if i == 3 {
				spoilRecord(t, to, damaged)
			}
			if tip, err := to.Extend(b); err != nil || tip != b.End() {
				t.Fatalf("record %d is damaged: batch %d: %v, %v", damaged, i, tip, err)
			}
		}
		var corrupt *eventstore.CorruptError
		if len(reported) != 1 || !errors.As(reported[0], &corrupt) || corrupt.Position != damaged || !to.Damaged() {
			t.Errorf("record %d is damaged: reported %v", damaged, reported)
		}
		must(t, to.Close())
		has := false
		db, err := bbolt.Open(path, 0o600, nil)
		must(t, err)
		must(t, errors.Join(db.View(func(tx *bbolt.Tx) error {
			_, details := record.Split(tx.Bucket(bucketRecords).Get(positionKey(1)))
			has = len(details) > 0
			return nil
		}), db.Close()))
		if has != kept {
			t.Errorf("record %d is damaged: details are kept: %t", damaged, has)
		}
	}
}
