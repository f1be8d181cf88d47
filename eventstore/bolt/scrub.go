package bolt

import (
	"context"
	"errors"

	"payledger/eventstore"
	"payledger/eventstore/boltfile"
)

// Scrub leaves no byte in the log's file that was deleted before the call: see boltfile.File.Scrub.
// Until it is known which pages are free, it waits, and on a log that is stopped or suspended it does
// nothing.
func (s *Store) Scrub(ctx context.Context) error {
	if s.readOnly {
		return ErrReadOnly
	}
	select {
	case <-s.sound:
	case <-s.closing:
		return eventstore.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.stopped(); err != nil {
		return err
	}
	err := s.file.Scrub(ctx)
	if errors.Is(err, boltfile.ErrClosed) {
		return eventstore.ErrClosed
	}
	return err
}
