package eventstore

import (
	"context"
	"errors"
	"iter"
)

// Chunk appends some records after a position to dst, those that match. reached is
// the last position it looked at, which is after itself only at the end of the log.
// An error comes together with the records before it.
type Chunk func(ctx context.Context, dst []Stored, after Position, f Filter) (_ []Stored, reached Position, _ error)

var errScanned = errors.New("the scan has ended")

// ScanChunks is Store.Scan for a store that reads in chunks.
func ScanChunks(ctx context.Context, chunk Chunk, after Position, f Filter) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		atEnd := func(context.Context, Position) error { return errScanned }
		err := FollowChunks(ctx, chunk, atEnd, after, f, func(r Stored) error {
			if !yield(r, nil) {
				return errScanned
			}
			return nil
		})
		if !errors.Is(err, errScanned) {
			yield(Stored{}, err)
		}
	}
}

// FollowChunks is Store.Follow for a store that reads in chunks. wait returns nil
// when the log has a record after the position.
func FollowChunks(
	ctx context.Context, chunk Chunk, wait func(ctx context.Context, after Position) error, after Position, f Filter, fn func(Stored) error,
) error {
	var records []Stored
	for {
		var reached Position
		var err error
		records, reached, err = chunk(ctx, records[:0], after, f)
		for _, r := range records {
			if err := fn(r); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
		if reached == after {
			if err := wait(ctx, after); err != nil {
				return err
			}
		}
		after = reached
	}
}
