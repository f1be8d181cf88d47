package service

import (
	"context"
	"errors"
	"time"

	"payledger/cmd/payledger/process"
	"payledger/notifier/health"
)

// The pauses of scrubbing.
const (
	scrubAfter = 5 * time.Second // an erasure, so that others share the work
	scrubRetry = 10 * time.Second
)

// scrubs are the erasures whose bytes are still in the files, as one token.
type scrubs chan struct{}

// newScrubs holds the token, because a crash may have come between an erasure and the scrub after it.
func newScrubs() scrubs {
	s := make(scrubs, 1)
	s.want()
	return s
}

// want asks for a scrub after an erasure.
func (s scrubs) want() {
	select {
	case s <- struct{}{}:
	default: // one is asked for
	}
}

// run overwrites what was erased in the files of the log and of the views, soon after each erasure,
// until ctx ends.
func (s scrubs) run(ctx context.Context, a *app) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s:
		}
		for more := health.Pause(ctx, scrubAfter); more; more = health.Pause(ctx, scrubRetry) {
			err := errors.Join(a.views.Scrub(ctx), a.store.Scrub(ctx))
			if err == nil {
				break
			}
			if ctx.Err() == nil {
				a.Log.Warn().Err(err).Msg("what was erased cannot be overwritten in the files yet")
			}
		}
	}
}

// openScrub overwrites what is erased while the server runs.
func (a *app) openScrub(context.Context) (process.Part, error) {
	return process.Part{Run: func(ctx context.Context) error { a.erasures.run(ctx, a); return nil }}, nil
}
