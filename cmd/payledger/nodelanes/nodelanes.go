// Package nodelanes is the webhook deliveries of a node of a cluster.
//
// While the node is the sequencer it sends, and each change of its lane file is on a
// majority of the nodes before the file has it. Else its file follows that of the
// sequencer, so that it knows all that was begun when it takes over. A file that LANES
// does not follow from is replaced by a copy of another node's.
//
// Requests about deliveries are answered by the sequencer alone: the other nodes ask it
// over NATS. They do not read their own files, which may lag behind the answer that a
// merchant has just got, and lack the attempts and pauses that only the sequencer has in
// memory. A question that no node has taken up is asked again for 3 seconds; then, and
// where the answer to a change is lost, the merchant is asked to try again (503).
package nodelanes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/diskspace"
	"payledger/notifier/delivery"
	"payledger/notifier/delivery/replica"
	"payledger/notifier/delivery/store"
	"payledger/notifier/filecopy"
	"payledger/notifier/health"
)

// Lanes are a node's. Safe for concurrent use, but for Follow, TakeOver and Release,
// which are called one after the other.
type Lanes struct {
	door

	config  delivery.Config
	random  [8]byte // of this start
	copies  *filecopy.Server
	unasked []func() error // end the answers to other nodes
	lost    atomic.Bool
	ending  atomic.Bool

	adoptions atomic.Int32           // begun
	lacking   atomic.Pointer[uint64] // how many entries the file has, while there is no LANES

	mu     sync.Mutex
	writes io.WriterTo // the file, or the lanes that have it; nil: neither is open
}

// Open makes the lanes of a node. Their file is opened by Follow and TakeOver.
func Open(config delivery.Config, node *members.Node) (*Lanes, error) {
	l := &Lanes{door: door{node: node, secrets: config.Secrets, check: config.Sender.Check}, config: config}
	_, _ = rand.Read(l.random[:]) // never fails
	var err error
	if l.copies, err = filecopy.Serve(node.Conn.NATS(), l.subject(node.Node), filepath.Dir(config.Path), l.write); err != nil {
		return nil, err
	}
	for kind, answer := range map[string]func(context.Context, []byte) []byte{kind: l.answer, kindEntries: l.tellEntries} {
		end, err := node.Answer(kind, answer)
		if err != nil {
			return nil, errors.Join(err, l.Close())
		}
		l.unasked = append(l.unasked, end)
	}
	return l, nil
}

// Close ends what other nodes get of the file, and are answered.
func (l *Lanes) Close() (err error) {
	for _, end := range l.unasked {
		err = errors.Join(err, end())
	}
	return errors.Join(err, l.copies.Close())
}

// subject is where a node gives copies of its lane file.
func (l *Lanes) subject(node string) string {
	return "payledger.node." + l.node.Cluster.String() + "." + node + ".lanes"
}

var errNoLanes = errors.New("its lane file is not open just now")

// write writes a copy of the lane file.
func (l *Lanes) write(w io.Writer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes == nil {
		return errNoLanes
	}
	_, err := l.writes.WriteTo(w)
	return err
}

func (l *Lanes) opened(f io.WriterTo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes = f
}

// replica is what LANES needs to know of the node.
func (l *Lanes) replica() replica.Config {
	return replica.Config{
		JetStream: l.node.Conn.JetStream(), LogID: l.config.LogID, Replicas: len(l.node.Members), Random: l.random,
		Report: l.node.Report, Ending: l.ending.Load,
	}
}

func (l *Lanes) file() store.Options {
	return store.Options{
		Path: l.config.Path, Mark: l.config.Mark, LogID: l.config.LogID, Store: l.config.Ledger.Store, Now: l.config.Now, Log: l.config.Log,
	}
}

// Follow lets the lane file follow that of the sequencer until stop is called.
func (l *Lanes) Follow(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		for {
			if err := l.followOnce(ctx); err != nil && ctx.Err() == nil {
				l.node.Report(err)
			}
			if !health.Pause(ctx, time.Second) {
				return
			}
		}
	})
	return func() {
		cancel()
		following.Wait()
	}
}

// followOnce follows until ctx ends or the file has to be replaced, which it is then.
func (l *Lanes) followOnce(ctx context.Context) (err error) {
	f, err := store.Open(ctx, l.file())
	if err != nil {
		return err
	}
	l.opened(f)
	err = func() error {
		for {
			all, err := l.find(ctx, f, false)
			switch {
			case err == nil:
				return all.Follow(ctx)
			case !errors.Is(err, replica.ErrMissing):
				return err
			}
			l.node.Report(err)
			if !health.Pause(ctx, time.Second) { // with the file open: another node may need a copy
				return ctx.Err()
			}
		}
	}()
	l.opened(nil)
	if closed := f.Close(0); closed != nil {
		return closed
	}
	if errors.Is(err, replica.ErrBehind) {
		return l.adopt(ctx, err)
	}
	return err
}

// adopt puts a copy of another node's lane file in the place of the own one. The file
// that LANES follows from is that of the node which leads it: of the others it may be
// no better than the own one, and then the next time begins with the next one.
func (l *Lanes) adopt(ctx context.Context, why error) error {
	errs := []error{why}
	peers := l.node.Peers()
	if leader := l.node.Store.Status().Leader; len(peers) > 1 && peers[1].Name == leader {
		peers[0], peers[1] = peers[1], peers[0]
	}
	first := int(l.adoptions.Add(1)-1) % len(peers)
	for _, peer := range slices.Concat(peers[first:], peers[:first]) {
		err := l.adoptFrom(ctx, peer.Name)
		if err == nil {
			l.config.Log.Warn().Err(why).Str("node", peer.Name).Msg("the lane file was replaced by a copy of that node's")
			return nil
		}
		errs = append(errs, fmt.Errorf("node %s: %w", peer.Name, err))
	}
	return errors.Join(errs...)
}

// givenError is why the copy that another node gave could not be used.
type givenError struct{ error }

func (e *givenError) Unwrap() error { return e.error }

// adoptFrom fails with a *givenError once the peer has begun to give the copy.
func (l *Lanes) adoptFrom(ctx context.Context, peer string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(l.config.Path), filecopy.Pattern)
	if err != nil {
		return err
	}
	ctx, end := l.whileServed(ctx, peer)
	defer end()
	given := false
	err = filecopy.Fetch(ctx, l.node.Conn.NATS(), l.subject(peer), func(size int64) (io.Writer, error) {
		given = true
		free, err := diskspace.Free(filepath.Dir(f.Name()))
		if err == nil && free < uint64(size)+diskspace.DefaultFloor {
			err = fmt.Errorf("the disk has no room for its lane file: %d bytes are free, and it takes %d", free, size)
		}
		return f, err
	})
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = store.Adopt(l.file(), f.Name())
	}
	if err = errors.Join(err, datadir.RemoveIfExists(f.Name())); err != nil && given {
		err = &givenError{err}
	}
	return err
}

// gone is how often in a row a node does not answer until it counts as gone. It is asked
// once a second.
const gone = 5

// whileServed is ctx until a node does not answer any more: making a copy may take minutes,
// and nothing should wait for it once that node has ended.
func (l *Lanes) whileServed(ctx context.Context, peer string) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() {
		for silent := 0; silent < gone && health.Pause(ctx, time.Second); {
			silent++
			for _, s := range l.node.Store.Statuses(ctx) {
				if s.Name == peer && s.Silent == "" {
					silent = 0
				}
			}
		}
		cancel()
	})
	return ctx, func() {
		cancel()
		watching.Wait()
	}
}

// TakeOver opens the lanes with what the other nodes know of them. Release closes them,
// once nothing uses them any more.
func (l *Lanes) TakeOver(ctx context.Context) (*delivery.Lanes, error) {
	l.lost.Store(false)
	l.ending.Store(false)
	lanes, err := l.lead(ctx, false)
	for began := time.Now(); errors.Is(err, replica.ErrBehind); {
		lost := time.Since(began) > lostAfter
		if lost {
			began = time.Now()
			err = l.distrust(err)
		} else {
			began, err = l.getFile(ctx, began, err)
		}
		if err != nil {
			return nil, err
		}
		lanes, err = l.lead(ctx, lost)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the lanes of webhook deliveries: %w", err)
	}
	l.lanes.Store(lanes)
	l.opened(lanes)
	return lanes, nil
}

// lostAfter is how long a node waits for the one whose lane file LANES continues, or is to
// be created from. After that it goes on as if its own file were lost: outcomes that are
// not processed are worse than a webhook that is sent twice.
const lostAfter = 30 * time.Second

// distrust has a new lane file begun in the place of the own one.
func (l *Lanes) distrust(why error) error {
	l.config.Log.Error().Err(why).Msg("no node that can be reached has the lane file from which the cluster's deliveries follow: " +
		"this node begins a new one, as if it had lost lanes.db")
	return datadir.RemoveIfExists(l.config.Mark)
}

// getFile gets the lane file of another node. It answers since when no other node has given
// one that was of use, or might have been.
func (l *Lanes) getFile(ctx context.Context, since time.Time, why error) (time.Time, error) {
	err := l.adopt(ctx, why)
	if err == nil {
		err = why // it may be no better
	}
	if errors.As(err, new(*givenError)) {
		since = time.Now()
	}
	l.node.Report(fmt.Errorf("routing and webhooks wait for a lane file that only a node has which cannot be reached; "+
		"after %v this node begins a new one, and each endpoint is sent the newest event of every payment again: %w", lostAfter, err))
	if !health.Pause(ctx, time.Second) {
		return since, err
	}
	return since, nil
}

// lead opens the lanes, and leads LANES with them; lost: no node has a file that LANES
// follows from.
func (l *Lanes) lead(ctx context.Context, lost bool) (*delivery.Lanes, error) {
	config := l.config
	config.Lead = func(ctx context.Context, f *store.File) error {
		for began := time.Now(); ; {
			all, err := l.find(ctx, f, time.Since(began) > lostAfter)
			if err == nil {
				return all.Lead(ctx, lost)
			}
			if !errors.Is(err, replica.ErrMissing) || errors.Is(err, replica.ErrBehind) {
				return err
			}
			l.node.Report(err)
			if !health.Pause(ctx, 200*time.Millisecond) {
				return err
			}
		}
	}
	return delivery.Open(ctx, config)
}

// endTime is how long a node may take to end its cluster.
const endTime = 15 * time.Second

// EndCluster ends the cluster, so that this node goes on alone. At first the node becomes
// the sequencer and takes over the lanes, so that its files have everything.
func (l *Lanes) EndCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if _, err := l.node.Store.HandOver(ctx, l.node.Node); err != nil {
		return err
	}
	for l.lanes.Load() == nil {
		if !health.Pause(ctx, askAgain) {
			return fmt.Errorf("this node has not taken over the deliveries: %w", ctx.Err())
		}
	}
	return l.node.Store.EndLOG(ctx)
}

// End comes before whatever uses the lanes is stopped: a change of them that the other
// nodes do not take at once is given up, so that nothing waits for nodes that are gone.
func (l *Lanes) End() { l.ending.Store(true) }

// Release closes the lanes that TakeOver opened.
func (l *Lanes) Release(lanes *delivery.Lanes) error {
	l.lanes.Store(nil)
	l.opened(nil)
	return l.UnlessLost(lanes.Close())
}

// UnlessLost leaves out the error that another node leads the lanes: this one ends its
// work then and begins it anew, if it still is the sequencer.
func (l *Lanes) UnlessLost(err error) error {
	if errors.Is(err, replica.ErrLost) {
		l.lost.Store(true)
		return nil
	}
	return err
}

// Lost reports whether another node has begun to lead the lanes since TakeOver.
func (l *Lanes) Lost() bool { return l.lost.Load() }

// Entries is how many entries of LANES the lane file of a stopped node has. Of the
// nodes' files the one with the most knows all that was sent.
func Entries(ctx context.Context, d datadir.Dir, log eventstore.Store, logID domain.ID) (uint64, error) {
	f, err := store.Open(ctx, store.Options{
		Path: d.Lanes(), Mark: d.LanesMark(), LogID: logID, Store: log, Now: time.Now, Log: zerolog.Nop(),
	})
	if err != nil {
		return 0, err
	}
	at, err := f.Shared()
	return at.Number, errors.Join(err, f.Close(0))
}

// Distrust has the next server of a directory begin its lanes anew, each at its
// payment's newest state: the file does not know all that was sent.
func Distrust(d datadir.Dir) error { return datadir.RemoveIfExists(d.LanesMark()) }
