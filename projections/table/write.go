package table

import (
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"payledger/eventstore/boltfile"
)

const (
	metaBucket = "meta"
	noteKey    = "checkpoint"
	sumSize    = 4
)

// Create makes the buckets of a new file, empty but for the note.
func (db *DB) Create(note []byte) error {
	return db.Update(func(tx *bolt.Tx) error {
		for _, name := range append(db.Names(), metaBucket) {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return putNote(tx, note)
	})
}

// Pending is how many rows were changed since the last Seal. The DB is locked.
func (db *DB) Pending() (n int) {
	for _, t := range db.tables {
		n += t.pending()
	}
	return n
}

// Seal freezes every change so far for the next Write. The DB is locked, and the rows sealed before
// were dropped.
func (db *DB) Seal() {
	for _, t := range db.tables {
		t.seal()
	}
}

// Write stores the sealed rows, and the note about them, in one transaction,
// which is synced on return. It may be repeated. After an error the file may
// hold all of it or nothing.
func (db *DB) Write(note []byte) error {
	return db.Update(func(tx *bolt.Tx) error {
		for _, t := range db.tables {
			if err := t.write(tx); err != nil {
				return err
			}
		}
		return putNote(tx, note)
	})
}

// Drop forgets the sealed rows, which the file holds now. From now on the file
// holds every change with a stamp up to this one: see Table.GetUnchanged. The DB
// is locked.
func (db *DB) Drop(stamp uint64) {
	for _, t := range db.tables {
		t.drop()
	}
	db.written.Store(stamp)
}

func putNote(tx *bolt.Tx, note []byte) error {
	key := []byte(noteKey)
	return tx.Bucket([]byte(metaBucket)).Put(key, seal(metaBucket, key, note))
}

// Note is the note of the last Write.
func Note(tx *bolt.Tx) ([]byte, error) {
	meta := tx.Bucket([]byte(metaBucket))
	if meta == nil {
		return nil, Damage("it is not a file of tables")
	}
	key := []byte(noteKey)
	return checksumsOf(metaBucket).open(metaBucket, key, meta.Get(key))
}

// checksums makes those of a bucket's values: it is that of the bucket's name.
type checksums uint32

func checksumsOf(bucket string) checksums {
	return checksums(boltfile.Sum([]byte(bucket)))
}

func (c checksums) of(key, body []byte) uint32 {
	return boltfile.SumFrom(uint32(c), key, body)
}

// open returns a stored value's bytes without their checksum. They are valid as long as raw is.
func (c checksums) open(bucket string, key, raw []byte) ([]byte, error) {
	n := len(raw) - sumSize
	if n < 0 || binary.BigEndian.Uint32(raw[n:]) != c.of(key, raw[:n]) {
		return nil, Damage("table %s, key %x: the checksum is wrong", bucket, key)
	}
	return raw[:n], nil
}

// seal appends the checksum to a value's bytes.
func seal(bucket string, key, body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, checksumsOf(bucket).of(key, body))
}
