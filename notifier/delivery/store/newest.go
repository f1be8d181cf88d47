package store

import (
	"bytes"
	"iter"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
)

// NewestFirst lists an endpoint's deliveries in a state ("": in any) by event,
// the newest first, before one event (the zero id: all). The buckets that can
// hold them are read side by side.
func (t Tables) NewestFirst(to Number, s domain.DeliveryState, before domain.ID) iter.Seq2[Record, error] {
	in := []*bbolt.Bucket{t.pending, t.undelivered, t.settled}
	if s != "" {
		in = []*bbolt.Bucket{t.of(s)}
	}
	return func(yield func(Record, error) bool) {
		var open []*backward
		for _, b := range in {
			if c := newBackward(b, to, before); c.key != nil {
				open = append(open, c)
			}
		}
		for len(open) > 0 {
			newest := slices.MaxFunc(open, func(a, b *backward) int { return bytes.Compare(a.key, b.key) })
			d, err := parseRecord(domain.ID(newest.key[4:]), newest.key, newest.value)
			if !yield(d, err) || err != nil {
				return
			}
			if newest.at(newest.cursor.Prev()); newest.key == nil {
				open = slices.DeleteFunc(open, func(c *backward) bool { return c == newest })
			}
		}
	}
}

// backward goes through an endpoint's records in one bucket, the newest first.
type backward struct {
	cursor     *bbolt.Cursor
	prefix     []byte
	key, value []byte // nil at the end
}

func newBackward(in *bbolt.Bucket, to Number, before domain.ID) *backward {
	from := to.keyOf(before)
	if before.IsZero() {
		from = (to + 1).key()
	}
	c := &backward{cursor: in.Cursor(), prefix: to.key()}
	if k, _ := c.cursor.Seek(from); k == nil {
		c.at(c.cursor.Last())
	} else {
		c.at(c.cursor.Prev())
	}
	return c
}

func (c *backward) at(key, value []byte) {
	if c.key, c.value = key, value; !bytes.HasPrefix(key, c.prefix) {
		c.key, c.value = nil, nil
	}
}
