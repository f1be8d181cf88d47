// Package nodewitness lets the nodes of a cluster vouch for each other's checkpoints.
//
// A node that has signed a checkpoint, which is the sequencer as a rule, sends it to the
// others. Each compares it with the tree of its own log and, if they are the same, keeps
// the checkpoint and adds its cosignature (https://c2sp.org/tlog-cosignature), by a key
// that no other node has. So an auditor with the three public keys sees how many machines
// agree.
//
// # When trees differ
//
// One of the two has another log, and the third node's tree shows which one. A node stops
// taking part when another node has signed a checkpoint of another tree, or has refused
// to vouch because its tree differs, and the third node's tree is not this node's either.
// The position from which on the logs differ is found by asking the other node for the
// roots of smaller trees.
package nodewitness

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/members"
	"payledger/eventstore"
	"payledger/eventstore/translog"
)

const (
	// answerTime is how long an answer is waited for, treeTime how long the node that is
	// asked waits until its own log has come up to a checkpoint.
	answerTime = time.Second
	treeTime   = 700 * time.Millisecond

	// silentTime is how long a node that did not answer in time is not asked to vouch.
	silentTime = 5 * time.Second

	maxAnswer   = translog.MaxCheckpoint + 64<<10
	maxPending  = 64 // messages
	pendingSize = 4 << 20
)

// Config is what a witness needs.
type Config struct {
	Node *members.Node
	Log  *translog.Verifier // of the log's checkpoints

	// Root is the root of the own tree at a size that it may be about to reach.
	Root func(context.Context, eventstore.Position) (tlog.Hash, error)

	// Keep writes a checkpoint to disk before the node vouches for it, so that it never
	// vouches for another tree. An error: it cannot vouch now.
	Keep func(c translog.Checkpoint, signed []byte) error
}

// Witness is a node's. Safe for concurrent use.
type Witness struct {
	Config
	cosigner *translog.Cosigner
	subs     []*nats.Subscription
	ctx      context.Context //nolint:containedctx // until Close
	cancel   context.CancelFunc

	answering sync.RWMutex // Close waits for the answers under way

	mu     sync.Mutex
	keys   map[string]string // of the members, as far as known
	silent map[string]time.Time
}

// answer is what a node answers to a signed checkpoint.
type answer struct {
	Certificate string `json:"certificate"`
	Cosigned    string `json:"cosigned,omitzero"` // the checkpoint with the node's cosignature
	Differs     bool   `json:"differs,omitzero"`  // its tree is another one
	Error       string `json:"error,omitzero"`    // why it does not vouch
}

// Open lets the node vouch for the checkpoints of others.
func Open(c Config) (*Witness, error) {
	w := &Witness{Config: c, keys: make(map[string]string), silent: make(map[string]time.Time)}
	var err error
	if w.cosigner, err = c.Node.Cosigner(); err != nil {
		return nil, err
	}
	w.keys[c.Node.Node] = w.cosigner.VerifierKey()
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for verb, do := range map[string]func([]byte) []byte{verbCosign: w.cosign, verbRoot: w.root} {
		sub, err := c.Node.Conn.NATS().Subscribe(subject(c.Node.Member, c.Node.Node, verb), func(m *nats.Msg) {
			w.answering.RLock()
			defer w.answering.RUnlock()
			if w.ctx.Err() == nil {
				_ = m.Respond(do(m.Data)) // asked again
			}
		})
		if err == nil {
			w.subs = append(w.subs, sub)
			err = sub.SetPendingLimits(maxPending, pendingSize)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("waiting for checkpoints of other nodes: %w", err), w.Close())
		}
	}
	return w, nil
}

// Close ends it: the node vouches for nothing more, and its tree is not used any more.
func (w *Witness) Close() (err error) {
	w.cancel()
	w.answering.Lock()
	defer w.answering.Unlock()
	for _, sub := range w.subs {
		err = errors.Join(err, sub.Unsubscribe())
	}
	return err
}

// What nodes ask each other.
//
//	cosign  a signed checkpoint, or nothing -> answer in JSON
//	root    size (8, big-endian) -> the root hash of the node's tree at that size, or nothing
const (
	verbCosign = ".cosign"
	verbRoot   = ".root"
)

func subject(m *members.Member, node, verb string) string {
	return "payledger.node." + m.Cluster.String() + "." + node + verb
}

// cosign answers another node.
func (w *Witness) cosign(signed []byte) []byte {
	a := answer{Certificate: w.Node.Certificate}
	if len(signed) > 0 {
		cosigned, err := w.vouch(signed)
		if a.Cosigned = string(cosigned); err != nil {
			a.Error, a.Differs = err.Error(), errors.As(err, new(*translog.MismatchError))
		}
	}
	b, err := json.Marshal(a)
	if err != nil {
		w.Node.Report(err)
	}
	return b
}

func (w *Witness) vouch(signed []byte) ([]byte, error) {
	c, signed, err := w.Log.OpenAlone(signed)
	if err != nil {
		w.Node.Report(fmt.Errorf("another node wants this one to vouch: %w", err))
		return nil, err
	}
	if w.Node.Store.Status().Stopped != "" {
		return nil, errors.New("it takes no part any more")
	}
	ctx, cancel := context.WithTimeout(w.ctx, treeTime)
	defer cancel()
	root, err := w.Root(ctx, c.Size)
	if err != nil {
		return nil, fmt.Errorf("it does not have the first %d events: %w", c.Size, err)
	}
	if root != c.Root {
		w.shown(c, root)
		return nil, &translog.MismatchError{Checkpoint: c, Root: root}
	}
	if err := w.Keep(c, signed); err != nil {
		return nil, err
	}
	return w.cosigner.Cosign(w.Log, signed)
}

// root answers a node that looks for where the logs differ.
func (w *Witness) root(b []byte) []byte {
	if len(b) != 8 {
		return nil
	}
	ctx, cancel := context.WithTimeout(w.ctx, treeTime)
	defer cancel()
	root, err := w.Root(ctx, eventstore.Position(binary.BigEndian.Uint64(b)))
	if err != nil {
		return nil
	}
	return root[:]
}

// Collect adds the cosignatures of this node and of the others, as far as they answer,
// to a checkpoint that this one has signed for its own tree, and counts them.
func (w *Witness) Collect(ctx context.Context, signed []byte) ([]byte, int) {
	c, err := w.Log.Open(signed)
	if err != nil || w.Node.Store.Status().Stopped != "" {
		return signed, 0
	}
	cosigned, err := w.cosigner.Cosign(w.Log, signed)
	if err != nil {
		w.Node.Report(fmt.Errorf("vouching for a checkpoint: %w", err))
		return signed, 0
	}
	n := 1
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, p := range w.Node.Peers() {
		asked.Go(func() {
			if w.isSilent(p.Name) {
				return
			}
			a, by, err := w.ask(ctx, p.Name, signed)
			if err != nil {
				return // it is silent, which its status says
			}
			mu.Lock()
			defer mu.Unlock()
			with, ok := by.AddFrom([]byte(a.Cosigned), cosigned)
			switch {
			case ok:
				cosigned, n = with, n+1
			case a.Differs:
				w.refused(c, p.Name)
			default:
				w.Node.Report(fmt.Errorf("node %s does not vouch for the checkpoint of %d events: %s", p.Name, c.Size, a.Error))
			}
		})
	}
	asked.Wait()
	return cosigned, n
}

// isSilent reports whether a node did not answer lately. Signing does not wait for it.
func (w *Witness) isSilent(peer string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.silent[peer]) < silentTime
}

// ask asks a node to vouch.
func (w *Witness) ask(ctx context.Context, peer string, signed []byte) (a answer, by *translog.Witness, err error) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	reply, err := w.Node.Conn.NATS().RequestWithContext(asking, subject(w.Node.Member, peer, verbCosign), signed)
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		w.mu.Lock()
		w.silent[peer] = time.Now()
		w.mu.Unlock()
		return a, nil, err
	case err != nil:
		return a, nil, err
	case len(reply.Data) > maxAnswer:
		return a, nil, fmt.Errorf("node %s answers with %d bytes", peer, len(reply.Data))
	}
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		return a, nil, fmt.Errorf("the answer of node %s makes no sense: %w", peer, err)
	}
	if by, err = w.Node.WitnessOf(peer, a.Certificate); err != nil {
		w.Node.Report(fmt.Errorf("node %s as a witness: %w", peer, err))
		return a, nil, err
	}
	w.mu.Lock()
	w.keys[peer] = by.Key()
	w.mu.Unlock()
	return a, by, nil
}

// Keys are the public keys of the members as witnesses, by name; those of nodes that
// have not answered since the start are missing.
func (w *Witness) Keys(ctx context.Context) map[string]string {
	all := make(map[string]string)
	var asked sync.WaitGroup
	var mu sync.Mutex
	for _, m := range w.Node.Members {
		asked.Go(func() {
			w.mu.Lock()
			key := w.keys[m.Name]
			w.mu.Unlock()
			if key == "" {
				if _, by, err := w.ask(ctx, m.Name, nil); err == nil {
					key = by.Key()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all[m.Name] = key
		})
	}
	asked.Wait()
	return all
}
