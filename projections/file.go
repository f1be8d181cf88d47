package projections

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// damage says that the file is not what this program wrote, and where.
type damage = boltfile.DamagedError

const (
	metaBucket    = "meta"
	checkpointKey = "checkpoint"
	sumSize       = 4
)

// checkpoint says which log's which events the file holds, and in what form.
type checkpoint struct {
	Log      domain.ID           `json:"log"`
	Views    string              `json:"views"`
	Position eventstore.Position `json:"position"`
	Event    domain.ID           `json:"event"`
}

// checksums makes those of a bucket's values: it is that of the bucket's name.
type checksums uint32

func checksumsOf(bucket string) checksums {
	return checksums(crc32.Checksum([]byte(bucket), crc32.MakeTable(crc32.Castagnoli)))
}

func (c checksums) of(key, body []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // the package's own, made once
	return crc32.Update(crc32.Update(uint32(c), table, key), table, body)
}

// seal appends the checksum to a value's bytes.
func seal(bucket string, key, body []byte) []byte {
	return binary.BigEndian.AppendUint32(body, checksumsOf(bucket).of(key, body))
}

// unseal answers a value's bytes, which are valid as long as raw is.
func unseal(bucket string, key, raw []byte) ([]byte, error) {
	return checksumsOf(bucket).unseal(bucket, key, raw)
}

func (c checksums) unseal(bucket string, key, raw []byte) ([]byte, error) {
	n := len(raw) - sumSize
	if n < 0 || binary.BigEndian.Uint32(raw[n:]) != c.of(key, raw[:n]) {
		return nil, &damage{Reason: fmt.Sprintf("view %s, key %x: the checksum is wrong", bucket, key)}
	}
	return raw[:n], nil
}

// openFile opens a bolt file, made if it is missing. The error is a *damage
// when the file can only be deleted, any other when the reason may pass. Of its
// pages no more is looked at than the way to the newest rows: see checkFile.
func openFile(path string) (*boltfile.File, error) {
	f, err := boltfile.Open(path, boltfile.Options{Create: true, Check: boltfile.Check{Edges: true}, AtOnce: boltfile.AtOnce})
	switch {
	case err == nil:
		f.DB().AllocSize = 1 << 20
		return f, nil
	case errors.Is(err, boltfile.ErrLocked):
		return nil, fmt.Errorf("the views' file %s is in use by another process", path)
	case boltfile.Damaged(err):
		return nil, &damage{Reason: err.Error()}
	}
	return nil, err
}

// checkFile looks at every page of the file while it is used, and works no more
// than half of the time. What is wrong is deleted with the file.
func (e *Engine) checkFile(ctx context.Context) {
	err := e.db.Check(boltfile.Check{Pace: halfTime(ctx)})
	if boltfile.Damaged(err) {
		_ = e.damaged(&damage{Reason: err.Error()}) // which stops the engine
	}
}

// halfTime lets work of a few milliseconds be followed by as much rest.
func halfTime(ctx context.Context) func() error {
	pages := 0
	return func() error {
		if pages++; pages%pagesAtOnce != 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pagesRest):
			return nil
		}
	}
}

// Reading a page that the system has in memory takes one or two microseconds.
const (
	pagesAtOnce = 1 << 10
	pagesRest   = 2 * time.Millisecond
)

// readCheckpoint finds out what a file holds.
func readCheckpoint(tx *bolt.Tx) (c checkpoint, err error) {
	meta := tx.Bucket([]byte(metaBucket))
	if meta == nil {
		return c, &damage{Reason: "not a file of views"}
	}
	key := []byte(checkpointKey)
	body, err := unseal(metaBucket, key, meta.Get(key))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, &damage{Reason: "checkpoint: " + err.Error()}
	}
	return c, nil
}

func writeCheckpoint(tx *bolt.Tx, c checkpoint) error {
	body, err := json.Marshal(c)
	if err != nil {
		return err
	}
	key := []byte(checkpointKey)
	return tx.Bucket([]byte(metaBucket)).Put(key, seal(metaBucket, key, body))
}

// diskFull reports whether a flush failed only for want of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
