package service

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/exit"
	"payledger/cmd/payledger/progress"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections"
	"payledger/projections/views"
)

// The projections keep the hashes of the log's tree, so they do not show whether
// the log was changed after they folded it. Therefore the log's own bytes are
// compared with the newest checkpoint: a few events before anything is served,
// and all of them, while the server serves, before anything new is signed.

// How many events are compared before anything is served: the last ones the
// checkpoint covers, and others at random.
const (
	lastCompared   = 16
	randomCompared = 32
)

// viewsDifferError: the log matches its checkpoint, but the projections' tree
// does not.
type viewsDifferError struct{ reason string }

func (e *viewsDifferError) Error() string {
	return "the projections' tree is not the log's: " + e.reason
}

// refusal is the error that the log does not match its newest checkpoint, with
// advice.
func (c *checkpoints) refusal(err error) error {
	const onPurpose = "If you put an older log there on purpose, move %[2]s away: the log goes on from what it holds, and whoever keeps a later checkpoint can tell"
	if errors.As(err, new(*translog.TruncatedError)) {
		return exit.With(exit.Directory, "%[3]w: events at the end of %[1]s are missing. Put the newest ledger.db back. "+onPurpose, c.dir.Ledger(), c.file, err)
	}
	return exit.With(exit.Directory, "%[1]w. Find out what happened with \"payledger verify\", and put the log back that %[2]s was signed for. "+onPurpose, err, c.file)
}

// glance compares a fixed number of the log's events with the newest checkpoint,
// so it takes the same time for every log. If they differ, the whole log is read
// to find out whether the log or the projections are wrong: the error is
// refusal's or a *viewsDifferError.
func (c *checkpoints) glance(ctx context.Context) error {
	root, err := c.views.RootAt(ctx, c.newest.Size)
	var short *views.BeyondTreeError
	switch {
	case errors.As(err, &short):
		return c.refusal(&translog.TruncatedError{Checkpoint: c.newest, Size: short.Size})
	case err != nil:
		return exit.With(exit.Directory, "comparing the log with its newest checkpoint: %w", err)
	}
	differs := fmt.Sprintf("its root at %d events is %s", c.newest.Size, root)
	if root == c.newest.Root {
		if differs, err = c.sample(ctx); err != nil {
			return exit.With(exit.Directory, "comparing the log with its newest checkpoint: %w", err)
		}
	}
	if differs == "" {
		return nil
	}
	tree := translog.NewStreaming(c.newest)
	err = c.read(ctx, c.newest.Size, func(r eventstore.Stored) error { return tree.Append(r.Body) })
	switch {
	case errors.As(err, new(*translog.MismatchError)):
		return c.refusal(err)
	case err != nil:
		return exit.With(exit.Directory, "comparing the log with its newest checkpoint, which its projections are not (%s): %w", differs, err)
	}
	return &viewsDifferError{differs}
}

// sample checks some events: their bytes in the log, with the hashes that the
// projections keep, must lead to the checkpoint's root. differs says what is
// wrong with the first that does not. Events that cannot be read are left to the
// comparison of the whole log.
func (c *checkpoints) sample(ctx context.Context) (differs string, err error) {
	size := c.newest.Size
	first := size - min(size, lastCompared) + 1
	err = c.readFrom(ctx, first-1, size, func(r eventstore.Stored) error {
		differs, err = c.proved(ctx, r, differs)
		return err
	})
	for range randomCompared {
		if err != nil || differs != "" || size == 0 {
			break
		}
		at := eventstore.Position(rand.Uint64N(uint64(size))) + 1 //nolint:gosec // guessing it is of no use
		err = c.readFrom(ctx, at-1, at, func(r eventstore.Stored) error {
			differs, err = c.proved(ctx, r, differs)
			return err
		})
	}
	if errors.As(err, new(*eventstore.CorruptError)) {
		err = nil
	}
	return differs, err
}

func (c *checkpoints) proved(ctx context.Context, r eventstore.Stored, before string) (differs string, err error) {
	if before != "" {
		return before, nil
	}
	proof, err := c.views.Inclusion(ctx, r.Position, c.newest.Size)
	if err != nil {
		return "", err
	}
	if unproved := proof.Check(c.newest, r.Body); unproved != nil {
		differs = unproved.Error()
	}
	return differs, nil
}

// read reads the log's first events.
func (c *checkpoints) read(ctx context.Context, last eventstore.Position, each func(eventstore.Stored) error) error {
	return c.readFrom(ctx, 0, last, each)
}

func (c *checkpoints) readFrom(ctx context.Context, after, last eventstore.Position, each func(eventstore.Stored) error) error {
	if after >= last {
		return nil
	}
	for r, err := range c.store.Scan(ctx, after, eventstore.Filter{}) {
		if err == nil {
			err = each(r)
		}
		if err != nil || r.Position >= last {
			return err
		}
	}
	return nil
}

// compare reads the log up to where it ended when it was opened. If the log
// agrees with the newest checkpoint and with the projections' tree, checkpoints
// may be signed. If paced, it takes at most half a processor's time. A difference
// goes to failed. Events that cannot be read do not: what does not need them goes
// on, and nothing new is signed.
func (c *checkpoints) compare(ctx context.Context) {
	begun, worked := time.Now(), time.Now()
	var pinned []translog.Checkpoint
	if c.signed != nil {
		pinned = append(pinned, c.newest)
	}
	tree := translog.NewStreaming(pinned...)
	report := progress.EachInterval(func(done, total eventstore.Position) {
		c.log.Info().Uint64("position", uint64(done)).Uint64("events", uint64(total)).Msg("comparing the log with its newest checkpoint; nothing new is signed before")
	})
	err := c.read(ctx, c.opened, func(r eventstore.Stored) error {
		if err := tree.Append(r.Body); err != nil {
			return err
		}
		if r.Position%1024 != 0 {
			return nil
		}
		c.comparedTo.Store(uint64(r.Position))
		report(r.Position, c.opened)
		if c.paced {
			select {
			case <-ctx.Done():
			case <-time.After(time.Since(worked)):
			}
			worked = time.Now()
		}
		return ctx.Err()
	})
	var root tlog.Hash
	if err == nil {
		root, err = c.views.RootAt(ctx, c.opened)
	}
	defer func() {
		if ctx.Err() == nil {
			close(c.compared)
		}
	}()
	switch {
	case ctx.Err() != nil:
	case errors.As(err, new(*translog.MismatchError)):
		c.doubt = c.refusal(err)
		c.failed <- c.doubt
	case errors.As(err, new(*eventstore.CorruptError)):
		c.log.Error().Err(err).Msg("the log cannot be compared with its newest checkpoint, so nothing new is signed: " +
			"find out what is damaged with \"payledger verify\", and restore the newest backup")
		c.doubt = fmt.Errorf("the log cannot be compared with its newest checkpoint: %w", err)
	case err != nil:
		c.doubt = err
	case root != tree.Root():
		reason := fmt.Sprintf("the log's root at %d events is %s, theirs %s: either they were altered, or the log was after they had folded it", c.opened, tree.Root(), root)
		c.doubt = exit.With(exit.Failed, "%w", c.views.Distrust(reason))
		c.failed <- c.doubt
	default:
		c.comparedTo.Store(uint64(c.opened))
		c.log.Info().Uint64("events", uint64(c.opened)).Dur("took", time.Since(begun)).Msg("the log is what its newest checkpoint was signed for")
	}
}

// whole waits until the whole log was compared. The error is what keeps
// checkpoints from being signed.
func (c *checkpoints) whole(ctx context.Context) error {
	select {
	case <-c.compared:
		return c.doubt
	case <-ctx.Done():
		return ctx.Err()
	}
}

// failure is what comparing has found by now, nil for nothing.
func (c *checkpoints) failure() error {
	select {
	case err := <-c.failed:
		return err
	default:
		return nil
	}
}

// noteMissing notes in the log that its checkpoint is missing; one has been
// there since the directory was made. The log goes on, because an operator who
// puts an older log there on purpose moves the checkpoint away.
func (c *checkpoints) noteMissing(now time.Time) error {
	if c.opened == 0 {
		return nil
	}
	c.missing = fmt.Sprintf("%s is missing beside a log of %d events: had the log's end been cut off, nothing here would show it. "+
		"Put the newest checkpoint back, or hold the log against one that was kept elsewhere: payledger verify --data %s --checkpoint FILE. "+
		"If a backup was restored or the checkpoint moved away on purpose, nothing is to be done; it is noted in the log", c.file, c.opened, c.dir)
	c.log.Error().Uint64("events", uint64(c.opened)).Msg(c.missing)
	if c.readOnly {
		return nil
	}
	err := c.store.NoteMissingCheckpoint(now)
	if errors.Is(err, eventstore.ErrFull) {
		return nil // the next start may have the room
	}
	return err
}

// observe adds the metrics of the comparison.
func (c *checkpoints) observe(m prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) {
		m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
	}
	gauge("payledger_log_compared_position", "Up to where the log was compared with its newest checkpoint since the start.",
		func() float64 { return float64(c.comparedTo.Load()) })
	gauge("payledger_log_compared", "1 when the whole log was compared since the start, so that checkpoints are signed; 0 before, or when it cannot be.",
		func() float64 {
			select {
			case <-c.compared:
				if c.doubt == nil {
					return 1
				}
			default:
			}
			return 0
		})
	gauge("payledger_log_checkpoint_missing", "1 when the log was opened without its newest checkpoint.", func() float64 {
		if c.missing != "" {
			return 1
		}
		return 0
	})
}

// openViews opens the projections and the checkpoints of a log. Projections
// whose tree is not the log's are made anew, once.
func openViews(ctx context.Context, d datadir.Dir, o checkpointOptions, config projections.Config) (*projections.Engine, *checkpoints, error) {
	for again := true; ; again = false {
		views, err := projections.Open(ctx, config)
		if err != nil {
			return nil, nil, exit.With(exit.Directory, "opening the projections: %w", err)
		}
		signed, err := openCheckpoints(ctx, d, views, o)
		if err == nil {
			return views, signed, nil
		}
		err = errors.Join(err, views.Close())
		if !again || !errors.As(err, new(*viewsDifferError)) {
			return nil, nil, err
		}
		o.log.Error().Err(err).Msg("the projections are made anew")
		if err := os.Remove(config.Path); err != nil {
			return nil, nil, exit.With(exit.Directory, "deleting projections that are not the log's: %w", err)
		}
	}
}
