package store

import (
	"bytes"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
)

// Kept is a kind of rows that are forgotten when they are old.
type Kept int

// The kinds. Records are kept since they were last touched, idle lanes a day
// longer: their marks outlive their deliveries and say what can be
// sent again.
const (
	KeptSettled Kept = iota
	KeptUndelivered
	KeptLanes
)

const keepLanes = domain.KeepDeliveries + 24*time.Hour

func (t Tables) kept(k Kept) (*bbolt.Bucket, time.Duration) {
	switch k {
	case KeptLanes:
		return t.lanes, keepLanes
	case KeptUndelivered:
		return t.undelivered, domain.KeepDeliveries
	default:
		return t.settled, domain.KeepDeliveries
	}
}

// prefix is what the keys of an endpoint's rows begin with; lanes are those of
// all endpoints.
func (k Kept) prefix(of Number) []byte {
	if k == KeptLanes {
		return nil
	}
	return of.key()
}

// id is the id in a key: of a lane's payment, or of a delivery's event.
func (k Kept) id(key []byte) domain.ID {
	if k == KeptLanes {
		return domain.ID(key[:16])
	}
	return domain.ID(key[4:])
}

func (k Kept) outdated(key, v []byte, horizon domain.Instant) (bool, error) {
	if k == KeptLanes {
		l, err := parseLane(key, v)
		return len(l.Line) == 0 && l.touched < horizon, err
	}
	d, err := parseRecord(k.id(key), key, v)
	return d.touched < horizon, err
}

// Outdated lists up to limit keys of an endpoint's rows that can go, from a key on
// (nil: the first), and looks at up to look rows for it. next is where to go on,
// nil at the end. Keys are in the order of their ids, and ids carry the time of
// their making, which is before anything else that happened to what they name:
// at the first one that is young enough the rest need not be seen.
func (t Tables) Outdated(k Kept, of Number, from []byte, now domain.Instant, look, limit int) (keys [][]byte, next []byte, err error) {
	in, keep := t.kept(k)
	horizon := now.Add(-keep)
	prefix := k.prefix(of)
	if from == nil {
		from = prefix
	}
	c := in.Cursor()
	key, v := c.Seek(from)
	for looked := 0; len(key) > 0 && bytes.HasPrefix(key, prefix); looked++ {
		if domain.IDTime(k.id(key)) >= horizon {
			break
		}
		if looked == look || len(keys) == limit {
			return keys, bytes.Clone(key), nil
		}
		old, err := k.outdated(key, v, horizon)
		if err != nil {
			return nil, nil, err
		}
		if old {
			keys = append(keys, bytes.Clone(key))
		}
		key, v = c.Next()
	}
	return keys, nil, nil
}

// Forget removes a row if it is still outdated.
func (x *Tx) Forget(k Kept, key []byte) (forgotten bool, err error) {
	in, keep := x.kept(k)
	v := in.Get(key)
	if v == nil {
		return false, nil
	}
	old, err := k.outdated(key, v, x.Now.Add(-keep))
	if old && err == nil {
		x.remove(in, key)
	}
	return old, err
}
