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

// openScrub overwrites what was erased in the files of the log and of the views while the server runs,
// soon after each erasure. The first time is because a crash may have come between an erasure and
// the scrub after it.
func (a *app) openScrub(context.Context) (process.Part, error) {
	return process.Part{Run: func(ctx context.Context) error {
		for {
			for more := health.Pause(ctx, scrubAfter); more; more = health.Pause(ctx, scrubRetry) {
				err := errors.Join(a.views.Scrub(ctx), a.store.Scrub(ctx))
				if err == nil {
					break
				}
				if ctx.Err() == nil {
					a.Log.Warn().Err(err).Msg("what was erased cannot be overwritten in the files yet")
				}
			}
			select {
			case <-ctx.Done():
				return nil
			case <-a.erased:
			}
		}
	}}, nil
}
