package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/projections"
)

// checkpointEvery is how often a checkpoint is signed while events arrive. It
// leaves room for the signing within a second.
const checkpointEvery = 800 * time.Millisecond

// checkpoints signs the log's checkpoints. A signed one is on disk before
// anybody sees it, each covers more events than the one before, and the
// newest is checked against the log whenever the directory is opened: so the
// log cannot lose or change what was signed for and go on as if nothing had
// happened. Safe for concurrent use.
type checkpoints struct {
	file   string
	signer *translog.Signer
	views  *projections.Engine
	log    zerolog.Logger

	mu      sync.Mutex
	newest  translog.Checkpoint
	signed  []byte // newest as a signed note; nil while there is none
	publish func(signed []byte)
	trouble bool // what keeps checkpoints from being signed was logged
}

// openCheckpoints reads the newest checkpoint that was signed and refuses a
// log that does not hold what it covers. The caller holds the directory.
func openCheckpoints(ctx context.Context, d dataDir, signer *translog.Signer, views *projections.Engine, log zerolog.Logger) (*checkpoints, error) {
	c := &checkpoints{file: d.checkpoint(), signer: signer, views: views, log: log, publish: func([]byte) {}}
	signed, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, exitWith(exitDirectory, "reading the newest checkpoint: %w", err)
	}
	verifier, err := translog.ParseVerifier(signer.VerifierKey())
	if err != nil {
		return nil, err
	}
	if c.newest, err = verifier.Open(signed); err != nil {
		return nil, exitWith(exitDirectory, "%[1]s, the newest checkpoint, does not belong to log.key: %[2]w. Restore the two that belong together; "+
			"if there is no such pair, move %[1]s away and start again", c.file, err)
	}
	c.signed = signed
	if err := c.check(ctx, d); err != nil {
		return nil, err
	}
	return c, nil
}

// check compares the newest checkpoint with the log.
func (c *checkpoints) check(ctx context.Context, d dataDir) error {
	const onPurpose = "If you put an older log there on purpose, move %s away: the log goes on from what it holds, and whoever keeps a later checkpoint can tell"
	root, err := c.views.RootAt(ctx, c.newest.Size)
	var short *projections.BeyondTreeError
	switch {
	case errors.As(err, &short):
		err = &translog.TruncatedError{Checkpoint: c.newest, Size: short.Size}
		return exitWith(exitDirectory, "%w: events at the end of %s are missing. Put the newest ledger.db back. "+onPurpose, err, d.ledger(), c.file)
	case err != nil:
		return exitWith(exitDirectory, "comparing the log with its newest checkpoint: %w", err)
	case root != c.newest.Root:
		err = &translog.MismatchError{Checkpoint: c.newest, Root: root}
		return exitWith(exitDirectory, "%w. Find out what happened with \"payledger verify\", and put the log back that %s was signed for. "+onPurpose, err, c.file, c.file)
	}
	return nil
}

// checkpoint answers a signed checkpoint over everything that is durable when
// it is called, or more.
func (c *checkpoints) checkpoint(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	size, root, err := c.views.Tree(ctx)
	if err != nil {
		return nil, err
	}
	next := translog.Checkpoint{Origin: c.signer.Origin(), Size: size, Root: root}
	if c.signed != nil {
		if next == c.newest {
			return c.signed, nil
		}
		if size <= c.newest.Size {
			return nil, fmt.Errorf("the log's tree of %d events does not go on from that of %d events that was signed for: nothing more is signed", size, c.newest.Size)
		}
	}
	signed, err := c.signer.Sign(next)
	if err != nil {
		return nil, err
	}
	if err := writeFileSynced(c.file, signed); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: %w", eventstore.ErrFull, err)
		}
		return nil, fmt.Errorf("writing a checkpoint: %w", err)
	}
	c.newest, c.signed = next, signed
	c.publish(signed)
	return signed, nil
}

// sign signs a checkpoint if there is something new. What keeps it from that
// is logged once; the log goes on, and the next try covers all of it.
func (c *checkpoints) sign(ctx context.Context) {
	_, err := c.checkpoint(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && c.trouble:
		c.trouble = false
		c.log.Info().Msg("checkpoints are signed again")
	case err != nil && !c.trouble:
		c.trouble = true
		c.log.Warn().Err(err).Msg("no checkpoint could be signed; it is tried until it can")
	}
}

// follow signs checkpoints as events arrive, the first at once, and hands each
// to publish, which must neither wait nor fail. The returned function ends
// that.
func (c *checkpoints) follow(publish func(signed []byte)) (stop func() error) {
	c.mu.Lock()
	c.publish = publish
	if c.signed != nil {
		publish(c.signed) // at the end of the run before, nobody could hear it
	}
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(checkpointEvery)
		defer tick.Stop()
		for {
			c.sign(ctx)
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() error {
		cancel()
		running.Wait()
		return nil
	}
}

// finish signs the last checkpoint of a run.
func (c *checkpoints) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c.sign(ctx)
}
