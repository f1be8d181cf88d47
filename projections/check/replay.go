package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"payledger/eventstore"
	"payledger/projections"
)

// Replayed are the projects and payments that a log leads to at some position, read with the engine's
// Projects and EachPayment. They are in a temporary file, which Close deletes.
type Replayed struct {
	*projections.Engine
	dir string
}

// Replay folds the log from its first event up to the position, or to its end when that comes
// first: only the state of projects and payments, no other views. Payments that have not changed for a
// while are written to a file in the system's directory for temporary files. progress may be nil.
func Replay(
	ctx context.Context, l eventstore.Ledger, upTo eventstore.Position, progress func(done, total eventstore.Position),
) (*Replayed, error) {
	return rebuild(ctx, projections.Config{Store: l.Store, Codec: l.Codec, Progress: progress, StateOnly: true}, upTo)
}

// rebuild folds the log up to the position, or to its end when that comes first.
func rebuild(ctx context.Context, c projections.Config, upTo eventstore.Position) (*Replayed, error) {
	dir, err := os.MkdirTemp("", "payledger-replay-")
	if err != nil {
		return nil, err
	}
	c.Path, c.UpTo = filepath.Join(dir, "projections.db"), &upTo
	e, err := projections.Open(ctx, c)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &Replayed{e, dir}, nil
}

// Close deletes the file.
func (r *Replayed) Close() error { return errors.Join(r.Engine.Close(), os.RemoveAll(r.dir)) }
