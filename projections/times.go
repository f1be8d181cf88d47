package projections

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// timesView leads from a time to a place in the log: the highest time of any
// event so far, 8 bytes, to the last position at which that was the highest.
//
// Events are numbered in the order in which they were committed, and one may
// bear an earlier time than the one before it. What the log held as of a time
// is therefore defined as a beginning of the log: everything before the first
// event of a later time. An event of an earlier time behind that one belongs
// to what came after. So the books of a time no longer change once the log has
// gone beyond it.
type timesView struct {
	table[eventstore.Position]
	newest domain.Instant // guarded by Engine.mu; written by the fold alone
	begun  bool
}

func newTimesView() *timesView {
	return &timesView{table: newTable(
		"times",
		func(b []byte, p eventstore.Position) ([]byte, error) {
			return binary.BigEndian.AppendUint64(b, uint64(p)), nil
		},
		func(b []byte) (eventstore.Position, error) {
			if len(b) != 8 {
				return 0, errLength
			}
			return eventstore.Position(binary.BigEndian.Uint64(b)), nil
		},
	)}
}

func (*timesView) version() int { return 1 }

func (v *timesView) fold(c *change) {
	at := domain.InstantOf(c.record.At)
	if v.begun && at <= v.newest {
		v.put(timeKey(v.newest), c.record.Position)
		return
	}
	v.newest, v.begun = at, true
	v.insert(timeKey(at), c.record.Position)
}

// load reads the highest time from an opened file.
func (v *timesView) load(tx *bolt.Tx) error {
	key, raw := tx.Bucket([]byte(v.name)).Cursor().Last()
	if key == nil {
		return nil
	}
	if _, err := v.open(key, raw); err != nil {
		return err
	}
	if len(key) != 8 {
		return &damage{Reason: "view times: a key of the wrong length"}
	}
	v.newest, v.begun = domain.Instant(binary.BigEndian.Uint64(key)), true
	return nil
}

func timeKey(at domain.Instant) string { return uint64Key(uint64(max(at, 0))) }

// PositionAt is the last position before the first event that is later than
// the time; 0 when the log begins later.
func (e *Engine) PositionAt(ctx context.Context, at domain.Instant) (eventstore.Position, error) {
	if err := e.fresh(ctx); err != nil {
		return 0, err
	}
	return e.positionAt(ctx, at)
}

func (e *Engine) positionAt(ctx context.Context, at domain.Instant) (eventstore.Position, error) {
	if at < 0 {
		return 0, nil
	}
	found, err := gather(ctx, e, &e.times.table, keyRange{hi: timeKey(at) + "\x00"}, true, 1)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].value, nil
}

// gather reads the first n keys of a range, or all if there are fewer.
func gather[V any](ctx context.Context, e *Engine, t *table[V], r keyRange, falling bool, n int) ([]entry[V], error) {
	var all []entry[V]
	for rest := &r; rest != nil && len(all) < n; {
		found, next, err := window(ctx, e, t, *rest, falling, n-len(all))
		if err != nil {
			return nil, err
		}
		all, rest = append(all, found...), next
	}
	return all, nil
}
