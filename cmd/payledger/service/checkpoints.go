package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/exit"
	"payledger/cmd/payledger/nodewitness"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	"payledger/httpapi/merchant"
	"payledger/projections"
)

// checkpointEvery is how often a checkpoint is signed while events arrive. It
// leaves room for the signing within a second.
const checkpointEvery = 800 * time.Millisecond

// checkpoints signs the log's checkpoints. A signed one is on disk before
// it is published, each covers more events than the one before, and the newest is
// compared with the log whenever the directory is opened. So a log that lost or
// changed signed events is noticed. Safe for concurrent use.
type checkpoints struct {
	checkpointOptions
	dir    datadir.Dir
	file   string
	views  *projections.Engine
	nodes  *nodewitness.Witness // vouch for what is signed; nil: the directory is alone
	signs  func() bool          // whether this process signs as events arrive
	opened eventstore.Position  // where the log ended then

	compared   chan struct{} // closed when the log was compared as far as it can be
	doubt      error         // set before that: nothing may be signed
	comparedTo atomic.Uint64
	failed     chan error // a difference that comparing found: the process must end
	comparing  sync.WaitGroup
	cancel     context.CancelFunc // of comparing
	missing    string             // the message about a missing checkpoint

	mu      sync.Mutex
	newest  translog.Checkpoint
	signed  []byte // newest as a signed note; nil while there is none
	at      time.Time
	vouched int       // how many nodes vouch for it
	asked   time.Time // when they were; zero: not yet
	publish func(signed []byte)
	trouble bool // what keeps checkpoints from being signed was logged
}

// checkpointOptions say how checkpoints are signed and compared.
type checkpointOptions struct {
	store  *bolt.Store
	signer *translog.Signer
	log    zerolog.Logger
	paced  bool // others want to work while the log is compared
	now    func() time.Time

	readOnly bool // nothing new is signed or noted
}

// openCheckpoints reads the newest checkpoint that was signed and refuses a
// log that differs from it in the events that glance compares. The caller holds
// the directory's lock.
func openCheckpoints(ctx context.Context, d datadir.Dir, views *projections.Engine, o checkpointOptions) (*checkpoints, error) {
	c := &checkpoints{
		checkpointOptions: o, dir: d, file: d.Checkpoint(), views: views, publish: func([]byte) {}, signs: func() bool { return true },
		compared: make(chan struct{}), failed: make(chan error, 1), cancel: func() {},
	}
	var err error
	if c.opened, err = o.store.Last(ctx); err != nil {
		return nil, err
	}
	signed, err := os.ReadFile(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := c.noteMissing(o.now()); err != nil {
			return nil, err
		}
		return c, nil
	}
	if err != nil {
		return nil, exit.With(exit.Directory, "reading the newest checkpoint: %w", err)
	}
	verifier, err := translog.ParseVerifier(o.signer.VerifierKey())
	if err != nil {
		return nil, err
	}
	if c.newest, err = verifier.Open(signed); err != nil {
		return nil, exit.With(exit.Directory, "%[1]s, the newest checkpoint, does not belong to log.key: %[2]w. Restore the two that belong together; "+
			"if there is no such pair, move %[1]s away and start again", c.file, err)
	}
	c.signed, c.at = signed, o.now()
	if err := c.glance(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// begin compares the whole log with the newest checkpoint until finish.
func (c *checkpoints) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.comparing.Go(func() { c.compare(ctx) })
}

// unchanged returns the newest checkpoint if no event came after it.
func (c *checkpoints) unchanged(ctx context.Context) (signed []byte, ok bool) {
	size, _, err := c.views.Tree(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signed, err == nil && c.signed != nil && size == c.newest.Size
}

// checkpoint answers a signed checkpoint over everything that is durable when
// it is called, or more. It waits until the whole log was compared, and for the nodes
// that vouch for it.
func (c *checkpoints) checkpoint(ctx context.Context) ([]byte, error) {
	signed, err := c.fresh(ctx)
	if err != nil || c.nodes == nil || c.readOnly {
		return signed, err
	}
	return c.cosigned(ctx, signed)
}

// fresh answers a checkpoint for which nobody may have vouched yet.
func (c *checkpoints) fresh(ctx context.Context) ([]byte, error) {
	if err := c.whole(ctx); err != nil {
		return nil, err
	}
	if c.readOnly {
		if c.signed == nil {
			return nil, errors.New("there is no checkpoint, and none can be signed")
		}
		return c.signed, nil
	}
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
	if err := c.write(next, signed); err != nil {
		return nil, err
	}
	if c.nodes == nil {
		c.publish(signed)
	}
	return signed, nil
}

// write makes a checkpoint the newest; mu is held.
func (c *checkpoints) write(next translog.Checkpoint, signed []byte) error {
	if err := datadir.WriteFileSynced(c.file, signed); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: %w", eventstore.ErrFull, err)
		}
		return fmt.Errorf("writing a checkpoint: %w", err)
	}
	if next != c.newest || c.signed == nil {
		c.at, c.vouched, c.asked = c.now(), 0, time.Time{}
	}
	c.newest, c.signed = next, signed
	return nil
}

// promptly is checkpoint for callers that cannot wait long: the error is
// merchant.ErrComparing while the log is compared, unless there is nothing new
// to sign.
func (c *checkpoints) promptly(ctx context.Context) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := c.whole(waiting)
	if err == nil {
		return c.checkpoint(ctx)
	}
	if signed, ok := c.unchanged(ctx); ok {
		return signed, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = merchant.ErrComparing
	}
	return nil, err
}

// idle reports whether the views have no event that is not signed for. It only looks
// at memory: in a cluster every look at the log's end is work for all nodes.
func (c *checkpoints) idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.signed != nil && c.views.Position() == c.newest.Size
}

// sign signs a checkpoint if there are new events. A failure is logged once; the
// log is still written, and the next checkpoint covers everything.
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
		publish(c.signed) // NATS had stopped when the last run signed it
	}
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(checkpointEvery)
		defer tick.Stop()
		for first := true; ; first = false { // at first each node shows the others its tree
			if (first || c.signs()) && (!c.idle() || !c.settled()) {
				c.sign(ctx)
			}
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

// finish signs the last checkpoint of a run if the log is compared by then;
// otherwise the next run compares it again.
func (c *checkpoints) finish() {
	patience := 10 * time.Second
	if c.nodes != nil {
		_ = c.nodes.Close() // no more checkpoints of others are kept
		c.nodes = nil
		patience = 2 * time.Second // one that is alone reads nothing, and another one signs
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, ok := c.unchanged(ctx); !ok && !c.readOnly {
		select {
		case <-c.compared:
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	c.cancel()
	c.comparing.Wait()
	select {
	case <-c.compared:
		c.sign(ctx)
	default:
	}
}
