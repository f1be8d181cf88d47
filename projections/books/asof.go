package books

import (
	"context"
	"encoding/binary"
	"math"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// timesView leads from a time to a position: the highest time of any event so
// far, 8 bytes, to the last position at which that was the highest.
//
// Events are numbered in the order in which they were committed, and an event may have an earlier
// time than the one before it. So what the log held as of a time is defined as a prefix of the log:
// everything before the first event of a later time. Events after that one are not part of it, even
// if their time is earlier. So the books as of a time no longer change once the log has a later
// one.
type timesView struct {
	*table.Table[eventstore.Position]
	newest domain.Instant // used only by the fold
	begun  bool
}

func newTimesView(db *table.DB) *timesView {
	return &timesView{Table: table.New(db, "times", values.AppendUint64[eventstore.Position], values.ParseUint64)}
}

func (v *timesView) fold(r eventstore.Stored) {
	at := domain.InstantOf(r.At)
	if v.begun && at <= v.newest {
		v.Replace(timeKey(v.newest), r.Position)
		return
	}
	v.newest, v.begun = at, true
	v.Insert(timeKey(at), r.Position)
}

// load reads the highest time from an opened file.
func (v *timesView) load(ctx context.Context) error {
	last, err := v.First(ctx, table.Range{}, true, 1)
	if err != nil || len(last) == 0 {
		return err
	}
	if len(last[0].Key) != 8 {
		return table.Damage("table times: a key of the wrong length")
	}
	v.newest, v.begun = domain.Instant(binary.BigEndian.Uint64([]byte(last[0].Key))), true
	return nil
}

func timeKey(at domain.Instant) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(max(at, 0))))
}

// Now, as a position, is the newest one.
const Now eventstore.Position = math.MaxUint64

// PositionAt is the last position before the first event that is later than
// the time; 0 when the log begins later. An event of the same millisecond still belongs to it.
func (b *Books) PositionAt(ctx context.Context, at domain.Instant) (eventstore.Position, error) {
	if _, err := b.log.Fresh(ctx, eventstore.Filter{}); err != nil {
		return 0, err
	}
	return b.times.positionAt(ctx, at)
}

func (v *timesView) positionAt(ctx context.Context, at domain.Instant) (eventstore.Position, error) {
	if at < 0 {
		return 0, nil
	}
	found, err := v.First(ctx, table.Range{Hi: timeKey(at) + "\x00"}, true, 1)
	if err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0].Value, nil
}
