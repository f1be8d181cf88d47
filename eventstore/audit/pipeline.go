package audit

import (
	"context"
	"errors"
	"iter"

	"golang.org/x/mod/sumdb/tlog"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

// found is a record or, if it cannot be read, the damage.
type found struct {
	record  eventstore.Stored
	damaged *eventstore.CorruptError // in place of record
}

// item is a found record with what is computed from it alone, in parallel.
type item struct {
	found
	leaf    tlog.Hash
	event   domain.Event
	err     *eventstore.CorruptError // from decoding
	payment domain.ID                // zero if the stream is not a payment's
	version int                      // in which the event is stored
	claim   *eventstore.Claim        // of the event
}

const reportEvery = 4096

// records checks all records in order; it reads, decodes and hashes them ahead.
func (c *checker) records(ctx context.Context, src Source) error {
	reported := c.last
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
		if c.options.Progress != nil && c.last >= reported+reportEvery {
			reported = c.last
			c.options.Progress(c.last, max(c.last, c.options.Total))
		}
	}
	if c.options.Progress != nil {
		c.options.Progress(c.last, c.last)
	}
	return nil
}

// throughDamage reads the source and continues after damaged records. Any other
// error ends it.
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
					// Continue only after a new position, else the same damage comes forever.
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
	it.leaf = translog.LeafOf(f.record)
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
