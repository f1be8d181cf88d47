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

// scrubs wants the files scrubbed: see app.scrub. It is full at first, because a crash may have come
// between an erasure and the scrub after it.
func scrubs() chan struct{} {
	wanted := make(chan struct{}, 1)
	wanted <- struct{}{}
	return wanted
}

// scrub overwrites what was erased in the files of the log and of the views, soon after each
// erasure, until ctx ends.
func (a *app) scrub(ctx context.Context, wanted chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-wanted:
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

// want makes the function that asks for a scrub.
func want(wanted chan struct{}) func() {
	return func() {
		select {
		case wanted <- struct{}{}:
		default: // one is asked for
		}
	}
}

// openScrub overwrites what is erased while the server runs.
func (a *app) openScrub(context.Context) (process.Part, error) {
	return process.Part{Run: func(ctx context.Context) error { a.scrub(ctx, a.erasures); return nil }}, nil
}
