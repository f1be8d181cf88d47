package bolt

import (
	"context"
	"errors"
	"iter"
	"os"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/boltfile"
)

// The bounds of what one transaction of Build writes.
const (
	buildRecords = 1 << 13
	buildBytes   = 8 << 20
)

// Build writes a new log with the records of another one: ids, claims, bodies and
// details stay as they are, unless a later one erases these; Prev is set. They come
// in order from position 1, and each has to follow the one before it in its stream,
// else the error is an *eventstore.CorruptError. missing is what MissingCheckpoints
// says of the other log. The file must not exist. It is synced when Build returns
// nil; after an error it is unusable.
func Build(ctx context.Context, path string, logID domain.ID, records iter.Seq2[eventstore.Stored, error], missing ...eventstore.MissingCheckpoint) (last eventstore.Position, err error) {
	if _, err := os.Lstat(path); err == nil {
		return 0, exists(path)
	}
	if err := writeEmpty(path, logID); err != nil {
		return 0, &OpenError{Path: path, Err: err}
	}
	db, err := boltfile.OpenNew(path)
	if err != nil {
		return 0, &OpenError{Path: path, Err: err}
	}
	db.NoSync = true
	b := &builder{db: db, missing: missing}
	for r, err := range records {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = b.add(r)
		}
		if err != nil {
			return 0, errors.Join(err, b.end(), db.Close())
		}
	}
	return b.last, errors.Join(b.end(), db.Sync(), db.Close())
}

// builder writes records in large transactions.
type builder struct {
	db    *bbolt.DB
	tx    *bbolt.Tx // nil: none is open
	group staging
	size  int // of the bodies in the transaction
	last  eventstore.Position

	missing []eventstore.MissingCheckpoint
}

func (b *builder) add(r eventstore.Stored) (err error) {
	if b.tx == nil {
		if b.tx, err = b.db.Begin(true); err != nil {
			return err
		}
		b.group.begin(b.tx, b.last)
	}
	if r.Position != b.last+1 {
		return missing(b.last + 1)
	}
	key, before, err := b.group.follows(&r)
	switch {
	case errors.As(err, new(*eventstore.CorruptError)):
		return err
	case err != nil:
		return &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	r.Prev, b.last = before.position, r.Position
	erased, err := b.group.erases(&r)
	if err == nil {
		err = b.group.put(&r, key, erased)
	}
	if err != nil {
		return err
	}
	b.group.stage(&r, claims.Name{})
	if b.size += len(r.Body); len(b.group.records) < buildRecords && b.size < buildBytes {
		return nil
	}
	return b.end()
}

// end commits the open transaction, if there is one.
func (b *builder) end() error {
	if b.tx == nil {
		return nil
	}
	tx := b.tx
	b.tx, b.size = nil, 0
	err := b.group.meta.Put(keyNewest, b.group.newest[:])
	var noted []byte
	for _, m := range b.missing {
		noted = appendMissing(noted, m.Size, m.At)
	}
	if len(noted) > 0 {
		err = errors.Join(err, b.group.meta.Put(keyMissing, noted))
	}
	if err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}
