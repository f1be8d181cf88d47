package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Beside the times of use, the file holds
//
//	"forms"        SHA-256 of a form's token → end of its session, the path it led to
//
// where an end is 8 bytes, milliseconds since 1970, big-endian. What has ended is
// cleaned away when somebody signs in.
const formsBucket = "forms"

// maxCleaned bounds how much one sign-in cleans away.
const maxCleaned = 1000

// Session names the key that somebody has signed in with.
type Session struct{ Project, KeyID string }

// Ending is the end of something, and what is kept of it until then.
func Ending(end time.Time, content []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(end.UnixMilli())), content...)
}

// Ended reads what Ending wrote.
func Ended(v []byte) (end int64, content []byte) {
	if len(v) < 8 {
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(v)), v[8:]
}

// Clean implements Store.
func (f *File) Clean(now time.Time) error {
	return f.update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(formsBucket))
		if b == nil {
			return nil
		}
		var old [][]byte
		c := b.Cursor()
		for k, v := c.First(); k != nil && len(old) < maxCleaned; k, v = c.Next() {
			if end, _ := Ended(v); end < now.UnixMilli() {
				old = append(old, bytes.Clone(k))
			}
		}
		for _, k := range old {
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// UseForm implements Store.
func (f *File) UseForm(token string, end time.Time) (fresh bool, path string, err error) {
	key := sha256.Sum256([]byte(token))
	err = f.update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(formsBucket))
		if err != nil {
			return err
		}
		if old := b.Get(key[:]); old != nil {
			_, led := Ended(old)
			path = string(led)
			return nil
		}
		fresh = true
		return b.Put(key[:], Ending(end, nil))
	})
	return fresh && err == nil, path, err
}

// FormLed implements Store.
func (f *File) FormLed(token, path string) error {
	key := sha256.Sum256([]byte(token))
	return f.update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(formsBucket))
		if b == nil {
			return nil
		}
		old := b.Get(key[:])
		if len(old) < 8 {
			return nil
		}
		return b.Put(key[:], append(bytes.Clone(old[:8]), path...))
	})
}
