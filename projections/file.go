package projections

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"
	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"payledger/domain"
	"payledger/eventstore"
)

// damage says that the file is not what this program wrote, and where.
type damage struct{ reason string }

func (d *damage) Error() string { return d.reason }

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
		return nil, &damage{fmt.Sprintf("view %s, key %x: the checksum is wrong", bucket, key)}
	}
	return raw[:n], nil
}

// guard turns the panics and faults by which bolt answers a damaged file into
// a *damage.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &damage{fmt.Sprint(r)}
		}
	}()
	return fn()
}

// mapping is how much address space a file is given at once: 64 GiB, on 32-bit
// systems 1 MiB. While a file grows beyond its mapping, reads wait for those
// before them.
const mapping = 1 << (strconv.IntSize/2 + 4)

// openFile opens a bolt file, made if it is missing. The error is a *damage
// when the file can only be deleted, any other when the reason may pass.
func openFile(path string) (*bolt.DB, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	o := &bolt.Options{Timeout: time.Millisecond, FreelistType: bolt.FreelistMapType, NoStatistics: true, InitialMmapSize: mapping}
	var db *bolt.DB
	err = guard(func() error {
		var err error
		db, err = bolt.Open(path, 0o600, o)
		return err
	})
	var errno syscall.Errno
	var damaged *damage
	switch {
	case err == nil:
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("the views' file %s is in use by another process", path)
	case errors.As(err, &damaged), errors.As(err, &errno):
		return nil, err
	default:
		return nil, &damage{err.Error()}
	}
	db.AllocSize = 1 << 20
	if err := guard(func() error { return checkLength(db, path) }); err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// checkLength refuses a file that ends before the pages it speaks of.
func checkLength(db *bolt.DB, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return db.View(func(tx *bolt.Tx) error {
		if tx.Size() > info.Size() {
			return &damage{fmt.Sprintf("%d bytes long, %d expected", info.Size(), tx.Size())}
		}
		return nil
	})
}

// readCheckpoint finds out what a file holds.
func readCheckpoint(tx *bolt.Tx) (c checkpoint, err error) {
	meta := tx.Bucket([]byte(metaBucket))
	if meta == nil {
		return c, &damage{"not a file of views"}
	}
	key := []byte(checkpointKey)
	body, err := unseal(metaBucket, key, meta.Get(key))
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, &damage{"checkpoint: " + err.Error()}
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

func syncDir(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// diskFull reports whether a flush failed only for want of room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
