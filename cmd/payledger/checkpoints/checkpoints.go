// Package checkpoints signs the checkpoints of a directory's log, and compares the log with
// the newest one whenever the directory is opened.
//
// # Nodes vouch for each other's
//
// The leader of a cluster sends each checkpoint that it signs to the others. Each compares it with
// the tree of its own log and, if they are the same, keeps the checkpoint and adds its cosignature
// (https://c2sp.org/tlog-cosignature), by a key that no other node has. So an auditor with the
// three public keys sees how many machines agree.
//
// When trees differ one of the two has another log, and the third node's tree shows which one. A
// node stops taking part when another node has signed a checkpoint of another tree, or has refused
// to vouch because its tree differs, and the third node's tree is not this node's either. The
// position from which on the logs differ is found by asking the other node for the roots of
// smaller trees.
package checkpoints

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

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
	"payledger/httpapi/merchant"
	"payledger/projections"
)

// checkpointEvery is how often a checkpoint is signed while events arrive. It leaves time for the
// signing within a second.
const checkpointEvery = 800 * time.Millisecond

// Signer signs the log's checkpoints. A signed one is on disk before
// it is published, each covers more events than the one before, and the newest is
// compared with the log whenever the directory is opened. So a log that lost or
// changed signed events is noticed. Safe for concurrent use.
type Signer struct {
	Options
	dir    datadir.Dir
	file   string
	views  *projections.Engine
	codec  *eventstore.Codec
	nodes  *witness            // vouch for what is signed; nil: no cluster
	signs  func() bool         // whether this process signs as events arrive
	opened eventstore.Position // where the log ended then

	compared   chan struct{} // closed when the log was compared as far as it can be
	suspect    error         // set before that: nothing may be signed
	comparedTo atomic.Uint64
	missing    string // see Missing

	mu      sync.Mutex
	newest  translog.Checkpoint
	signed  []byte // newest as a signed note; nil while there is none
	at      time.Time
	vouched int       // how many nodes vouch for it
	asked   time.Time // when they were; zero: not yet
	publish func(signed []byte)
	trouble bool // why checkpoints are not signed was logged
}

// Options say how checkpoints are signed and compared.
type Options struct {
	Store *bolt.Store
	Key   *translog.Signer
	Log   zerolog.Logger
	Paced bool // others want to work while the log is compared
	Now   func() time.Time

	ReadOnly bool // nothing new is signed or noted
}

// Open opens the projections and the checkpoints of a log. Projections whose tree is not the log's
// are rebuilt, once. The caller holds the directory's lock.
func Open(ctx context.Context, d datadir.Dir, o Options, config projections.Config) (*projections.Engine, *Signer, error) {
	for again := true; ; again = false {
		views, err := projections.Open(ctx, config)
		if err != nil {
			return nil, nil, cli.Errorf(cli.ExitDirectory, "opening the projections: %w", err)
		}
		signed, err := newSigner(ctx, d, views, config.Codec, o)
		if err == nil {
			return views, signed, nil
		}
		err = errors.Join(err, views.Close())
		if !again || !errors.As(err, new(*viewsDifferError)) {
			return nil, nil, err
		}
		o.Log.Error().Err(err).Msg("the projections are rebuilt")
		if err := os.Remove(config.Path); err != nil {
			return nil, nil, cli.Errorf(cli.ExitDirectory, "deleting projections that are not the log's: %w", err)
		}
	}
}

// newSigner reads the newest checkpoint that was signed and refuses a log that differs from
// it in the events that glance compares.
func newSigner(ctx context.Context, d datadir.Dir, views *projections.Engine, codec *eventstore.Codec, o Options) (*Signer, error) {
	s := &Signer{
		Options: o, dir: d, file: d.Checkpoint(), views: views, codec: codec, publish: func([]byte) {}, signs: func() bool { return true },
		compared: make(chan struct{}),
	}
	var err error
	if s.opened, err = o.Store.Last(ctx); err != nil {
		return nil, err
	}
	signed, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.noteMissing(o.Now()); err != nil {
			return nil, err
		}
		return s, nil
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "reading the newest checkpoint: %w", err)
	}
	if s.newest, err = o.Key.Verifier().Open(signed); err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%[1]s, the newest checkpoint, does not belong to log.key: %[2]w. Restore the two that belong together; "+
			"if there is no such pair, move %[1]s away and start again", s.file, err)
	}
	s.signed, s.at = signed, o.Now()
	if err := s.glance(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// unchanged returns the newest checkpoint if no event came after it.
func (s *Signer) unchanged(ctx context.Context) (signed []byte, ok bool) {
	size, _, err := s.views.Tree(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed, err == nil && s.signed != nil && size == s.newest.Size
}

// Checkpoint returns a signed checkpoint over everything that is durable when it is called, or
// more. It waits until the whole log was compared, and for the cosignatures of the nodes. On a full
// disk it returns one that is not stored: the events that it covers are durable.
func (s *Signer) Checkpoint(ctx context.Context) ([]byte, error) {
	signed, err := s.stored(ctx)
	if errors.Is(err, eventstore.ErrFull) && signed != nil {
		return signed, nil
	}
	return signed, err
}

// stored returns a stored checkpoint; with an error of storing it, it also returns the checkpoint.
func (s *Signer) stored(ctx context.Context) ([]byte, error) {
	signed, err := s.fresh(ctx)
	if err != nil || s.nodes == nil || s.ReadOnly {
		return signed, err
	}
	return s.cosigned(ctx, signed)
}

// fresh returns a checkpoint that may not be cosigned yet.
func (s *Signer) fresh(ctx context.Context) ([]byte, error) {
	if err := s.Whole(ctx); err != nil {
		return nil, err
	}
	if s.ReadOnly {
		if s.signed == nil {
			return nil, errors.New("there is no checkpoint, and none can be signed")
		}
		return s.signed, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size, root, err := s.views.Tree(ctx)
	if err != nil {
		return nil, err
	}
	next := translog.Checkpoint{Origin: s.Key.Origin(), Size: size, Root: root}
	if s.signed != nil {
		if next == s.newest {
			return s.signed, nil
		}
		if size <= s.newest.Size {
			return nil, fmt.Errorf("the log's tree of %d events does not continue the signed one of %d events: nothing more is signed", size, s.newest.Size)
		}
	}
	signed, err := s.Key.Sign(next)
	if err != nil {
		return nil, err
	}
	if err := s.write(next, signed); err != nil {
		return signed, err
	}
	if s.nodes == nil {
		s.publish(signed)
	}
	return signed, nil
}

// write makes a checkpoint the newest; mu is held.
func (s *Signer) write(next translog.Checkpoint, signed []byte) error {
	if err := datadir.WriteFileSynced(s.file, signed); err != nil {
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
			err = fmt.Errorf("%w: %w", eventstore.ErrFull, err)
		}
		return fmt.Errorf("writing a checkpoint: %w", err)
	}
	if next != s.newest || s.signed == nil {
		s.at, s.vouched, s.asked = s.Now(), 0, time.Time{}
	}
	s.newest, s.signed = next, signed
	return nil
}

// Promptly is checkpoint for callers that cannot wait long: the error is
// merchant.ErrComparing while the log is compared, unless there is nothing new
// to sign.
func (s *Signer) Promptly(ctx context.Context) ([]byte, error) {
	waiting, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	err := s.Whole(waiting)
	if err == nil {
		return s.Checkpoint(ctx)
	}
	if signed, ok := s.unchanged(ctx); ok {
		return signed, nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = merchant.ErrComparing
	}
	return nil, err
}

// idle reports whether all events of the views are signed for. It reads only memory: in a cluster
// every read of the log's end is work for all nodes.
func (s *Signer) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.signed != nil && s.views.Position() == s.newest.Size
}

// sign signs a checkpoint if there are new events. A failure is logged once; the
// log is still written, and the next checkpoint covers everything.
func (s *Signer) sign(ctx context.Context) {
	_, err := s.stored(ctx)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil && s.trouble:
		s.trouble = false
		s.Log.Info().Msg("checkpoints are signed again")
	case err != nil && !s.trouble:
		s.trouble = true
		s.Log.Warn().Err(err).Msg("no checkpoint could be signed; it is tried until it can")
	}
}

// Follow signs checkpoints as events arrive, the first at once, until ctx ends. It hands each to
// publish, which must neither wait nor fail.
func (s *Signer) Follow(ctx context.Context, publish func(signed []byte)) {
	s.mu.Lock()
	s.publish = publish
	if s.signed != nil {
		publish(s.signed) // NATS had stopped when the last run signed it
	}
	s.mu.Unlock()
	tick := time.NewTicker(checkpointEvery)
	defer tick.Stop()
	for first := true; ; first = false { // at first each node shows the others its tree
		if (first || s.signs()) && (!s.idle() || !s.settled()) {
			s.sign(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Finish signs the last checkpoint of a run if the log is compared by then, for which it waits a
// little; otherwise the next run compares it again. Compare has not ended.
func (s *Signer) Finish() {
	patience := 10 * time.Second
	if s.nodes != nil {
		s.nodes.close() // no more checkpoints of others are stored
		s.nodes = nil
		patience = 2 * time.Second // a node alone cannot read, and another one signs
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, ok := s.unchanged(ctx); !ok && !s.ReadOnly {
		select {
		case <-s.compared:
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	select {
	case <-s.compared:
		s.sign(ctx)
	default:
	}
}
