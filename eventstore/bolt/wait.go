package bolt

import (
	"context"

	"payledger/eventstore"
)

// wait returns nil once a record after the position is durable.
func (s *Store) wait(ctx context.Context, after eventstore.Position) error {
	durable := s.tail.Wait(after)
	if durable == nil {
		return nil
	}
	select {
	case <-durable:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.closing:
		return eventstore.ErrClosed
	case <-s.fatal:
		return s.Err()
	}
}
