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
//	"sessions"     hash of the token → end of the session, its values; no values: it was signed out
//	"forms"        SHA-256 of a form's token → end of its session, the path it led to
//	"generations"  project, 0, key id → how often all sessions of the key were ended
//
// where an end is 8 bytes, milliseconds since 1970, big-endian, and so is a
// number. What has ended is cleaned away when somebody signs in.
const (
	sessionsBucket    = "sessions"
	formsBucket       = "forms"
	generationsBucket = "generations"
)

// maxCleaned bounds how much one sign-in cleans away.
const maxCleaned = 1000

// Session names the key that somebody has signed in with.
type Session struct{ Project, KeyID string }

// Find implements Store.
func (f *File) Find(token string) (values []byte, found bool, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(sessionsBucket)); b != nil {
			var end int64
			end, values = Ended(b.Get([]byte(token)))
			found = len(values) > 0 && time.Now().UnixMilli() < end
			values = bytes.Clone(values)
		}
		return nil
	})
	return values, found, err
}

// Commit implements Store.
func (f *File) Commit(token, _ string, values []byte, expiry time.Time) error {
	same := false
	err := f.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(sessionsBucket)); b != nil {
			end, old := Ended(b.Get([]byte(token)))
			same = end != 0 && (len(old) == 0 || bytes.Equal(old, values) && expiry.UnixMilli() == end)
		}
		return nil
	})
	if err != nil || same {
		return err
	}
	return f.update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(sessionsBucket))
		if err != nil {
			return err
		}
		if end, old := Ended(b.Get([]byte(token))); end != 0 && len(old) == 0 {
			return nil
		}
		return b.Put([]byte(token), Ending(expiry, values))
	})
}

// Delete implements Store.
func (f *File) Delete(token string) error {
	return f.update(func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte(sessionsBucket))
		if b == nil {
			return nil
		}
		if end, _ := Ended(b.Get([]byte(token))); end != 0 {
			return b.Put([]byte(token), binary.BigEndian.AppendUint64(nil, uint64(end)))
		}
		return nil
	})
}

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
		for _, name := range []string{sessionsBucket, formsBucket} {
			b := tx.Bucket([]byte(name))
			if b == nil {
				continue
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

// Generation implements Store.
func (f *File) Generation(s Session) (n uint64, err error) {
	err = f.view(func(tx *bolt.Tx) error {
		if b := tx.Bucket([]byte(generationsBucket)); b != nil {
			if v := b.Get([]byte(s.Project + "\x00" + s.KeyID)); len(v) == 8 {
				n = binary.BigEndian.Uint64(v)
			}
		}
		return nil
	})
	return n, err
}

// EndAll implements Store.
func (f *File) EndAll(s Session) error {
	return f.update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(generationsBucket))
		if err != nil {
			return err
		}
		key := []byte(s.Project + "\x00" + s.KeyID)
		var n uint64
		if v := b.Get(key); len(v) == 8 {
			n = binary.BigEndian.Uint64(v)
		}
		return b.Put(key, binary.BigEndian.AppendUint64(nil, n+1))
	})
}
