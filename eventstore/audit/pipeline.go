package audit

import (
	"context"
	"errors"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
)

// found is one record, or the damage in its place.
type found struct {
	record  eventstore.Stored
	damaged *eventstore.CorruptError // in place of record
}

// item is what was found, and what can be made of it by itself.
type item struct {
	found
	leaf    tlog.Hash
	event   domain.Event
	err     *eventstore.CorruptError // of decoding
	payment domain.ID                // zero where the stream is no payment's
	version int                      // of the event
	claim   *eventstore.Claim        // that the event makes
}

const reportEvery = 4096

// records reads the source, decodes and hashes ahead, and checks in order.
func (c *checker) records(ctx context.Context, src Source) error {
	told := c.last
	work := func(f found) item { return newItem(f, c.options.Codec) }
	for i, err := range eventstore.Ahead(ctx, throughDamage(ctx, src), work) {
		if err != nil {
			return err
		}
		if i.damaged != nil {
			c.damaged(i.damaged)
		} else {
			c.take(&i)
		}
		if c.options.Progress != nil && c.last >= told+reportEvery {
			told = c.last
			c.options.Progress(c.last, max(c.last, c.options.Total))
		}
	}
	if c.options.Progress != nil {
		c.options.Progress(c.last, c.last)
	}
	return nil
}

// throughDamage asks the source to go on behind damage. An error of another
// sort ends it.
func throughDamage(ctx context.Context, src Source) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		var last eventstore.Position
		for again := true; again && ctx.Err() == nil; {
			again = false
			for r, err := range src(last) {
				f := found{record: r}
				corrupt, damaged := errors.AsType[*eventstore.CorruptError](err)
				switch {
				case damaged:
					f.damaged = corrupt
					// A position that leads nowhere new would be met for ever.
					again = corrupt.Position > last
					last = max(last, corrupt.Position)
				case err != nil:
					yield(f, err)
					return
				default:
					last = max(last, r.Position)
				}
				if !yield(f, nil) {
					return
				}
				if again || ctx.Err() != nil {
					break
				}
			}
		}
	}
}

func newItem(f found, codec *eventstore.Codec) item {
	it := item{found: f}
	if f.damaged != nil {
		return it
	}
	it.leaf = tlog.RecordHash(f.record.Body)
	event, version, err := codec.DecodeVersion(f.record)
	if err != nil {
		corrupt, ok := errors.AsType[*eventstore.CorruptError](err)
		if !ok {
			corrupt = &eventstore.CorruptError{Position: f.record.Position, Reason: err.Error()}
		}
		it.err = corrupt
	}
	it.event, it.version = event, version
	it.claim = eventstore.ClaimOf(event, version)
	if f.record.Stream.Kind == eventstore.KindPayment {
		it.payment, _ = domain.ParseID(f.record.Stream.ID)
	}
	return it
}
