// Package nodewitness lets the nodes of a cluster vouch for each other's checkpoints.
//
// The leader sends each checkpoint that it signs to the others. Each compares it with the tree
// of its own log and, if they are the same, keeps the checkpoint and adds its cosignature
// (https://c2sp.org/tlog-cosignature), by a key that no other node has. So an auditor with the
// three public keys sees how many machines agree.
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
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/mod/sumdb/tlog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/httpapi/peer"
)

const (
	// answerTime is how long an answer is waited for, treeTime how long the node that is
	// asked waits until its own log has come up to a checkpoint.
	answerTime = time.Second
	treeTime   = 700 * time.Millisecond

	// silentTime is how long a node that did not answer in time is not asked to vouch.
	silentTime = 5 * time.Second

	maxAnswer = translog.MaxCheckpoint + 64<<10
)

// Config is what a witness needs.
type Config struct {
	Dir  datadir.Dir
	Node *clusternode.Node
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
	client   *http.Client
	ctx      context.Context //nolint:containedctx // until Close
	cancel   context.CancelFunc

	answering sync.RWMutex // Close waits for the answers under way
	closed    bool

	mu     sync.Mutex
	keys   map[string]string // of the nodes, as far as known
	silent map[string]time.Time
}

// answer is what a node answers to a signed checkpoint.
type answer struct {
	Key      string `json:"key"`               // of the node as a witness
	Cosigned string `json:"cosigned,omitzero"` // the checkpoint with the node's cosignature
	Differs  bool   `json:"differs,omitzero"`  // its tree is another one
	Error    string `json:"error,omitzero"`    // why it does not vouch
}

// What nodes ask each other.
//
//	POST cosign     a signed checkpoint, or nothing -> answer in JSON
//	GET  root/SIZE  the root hash of the node's tree at that size
const (
	cosignPath = "/cosign"
	rootPath   = "/root/"
)

// Open lets the node vouch for the checkpoints of others. Its peers are not answered yet.
func Open(c Config) (*Witness, error) {
	w := &Witness{Config: c, client: c.Node.Port.Client(), keys: make(map[string]string), silent: make(map[string]time.Time)}
	var err error
	if w.cosigner, err = w.readKey(); err != nil {
		return nil, err
	}
	w.keys[c.Node.Node] = w.cosigner.VerifierKey()
	w.ctx, w.cancel = context.WithCancel(context.Background())
	c.Node.Answer("POST "+cosignPath, w.unlessClosed(w.serveCosign))
	c.Node.Answer("GET "+rootPath+"{size}", w.unlessClosed(w.serveRoot))
	return w, nil
}

// readKey reads the node's key, and makes it the first time.
func (w *Witness) readKey() (*translog.Cosigner, error) {
	file := w.Dir.WitnessKey()
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var key string
		if key, err = translog.NewWitnessKey(rand.Reader, "payledger/"+w.Node.Ledger.String()+"/"+w.Node.Node); err == nil {
			b = []byte(key + "\n")
			err = datadir.WriteFileSynced(file, b)
		}
	}
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "the node's key as a witness: %w", err)
	}
	k, err := translog.ParseCosigner(string(b))
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%s: %w; put it back from a copy, or delete it to get another key, which auditors have to be told of", file, err)
	}
	return k, nil
}

// Close ends it: the node vouches for nothing more, and its tree is not used any more.
func (w *Witness) Close() {
	w.cancel()
	w.answering.Lock()
	defer w.answering.Unlock()
	w.closed = true
}

func (w *Witness) unlessClosed(do http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		w.answering.RLock()
		defer w.answering.RUnlock()
		if w.closed {
			http.Error(rw, "the node is being stopped", http.StatusServiceUnavailable)
			return
		}
		do(rw, r)
	}
}

func (w *Witness) serveCosign(rw http.ResponseWriter, r *http.Request) {
	a := answer{Key: w.cosigner.VerifierKey()}
	signed, err := io.ReadAll(io.LimitReader(r.Body, translog.MaxCheckpoint+1))
	if err == nil && len(signed) > 0 {
		signed, err = w.vouch(signed)
		a.Cosigned = string(signed)
	}
	if err != nil {
		a.Error, a.Differs = err.Error(), errors.As(err, new(*translog.MismatchError))
	}
	_ = json.MarshalWrite(rw, a) // asked again
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

// serveRoot answers a node that looks for where the logs differ.
func (w *Witness) serveRoot(rw http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseUint(r.PathValue("size"), 10, 64)
	ctx, cancel := context.WithTimeout(w.ctx, treeTime)
	defer cancel()
	var root tlog.Hash
	if err == nil {
		root, err = w.Root(ctx, eventstore.Position(size))
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusConflict)
		return
	}
	_, _ = rw.Write(root[:]) // asked again
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
	for name := range w.Node.Peers() {
		asked.Go(func() {
			if w.isSilent(name) {
				return
			}
			a, by, err := w.ask(ctx, name, signed)
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
				w.refused(c, name)
			default:
				w.Node.Report(fmt.Errorf("node %s does not vouch for the checkpoint of %d events: %s", name, c.Size, a.Error))
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

// request asks a node something. Only the node itself can show the certificate for its name.
func (w *Witness) request(ctx context.Context, node, method, path string, body []byte, most int64) ([]byte, error) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	r, err := http.NewRequestWithContext(asking, method, peer.URL(node)+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	reply, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = reply.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(reply.Body, most))
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("node %s answers %s: %s", node, reply.Status, bytes.TrimSpace(b))
	}
	return b, err
}

// ask asks a node to vouch.
func (w *Witness) ask(ctx context.Context, node string, signed []byte) (a answer, by *translog.Witness, err error) {
	b, err := w.request(ctx, node, http.MethodPost, cosignPath, signed, maxAnswer)
	if err != nil {
		if ctx.Err() == nil {
			w.mu.Lock()
			w.silent[node] = time.Now()
			w.mu.Unlock()
		}
		return a, nil, err
	}
	if err = json.Unmarshal(b, &a); err == nil {
		by, err = translog.ParseWitness(a.Key)
	}
	if err != nil {
		w.Node.Report(fmt.Errorf("node %s as a witness: %w", node, err))
		return a, nil, err
	}
	w.mu.Lock()
	w.keys[node] = by.Key()
	w.mu.Unlock()
	return a, by, nil
}

// Keys are the public keys of the nodes as witnesses, by name; those of nodes that have not
// answered since the start are missing.
func (w *Witness) Keys(ctx context.Context) map[string]string {
	var asked sync.WaitGroup
	for name := range w.Node.Peers() {
		w.mu.Lock()
		known := w.keys[name] != ""
		w.mu.Unlock()
		if !known {
			asked.Go(func() { _, _, _ = w.ask(ctx, name, nil) })
		}
	}
	asked.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.keys)
}
