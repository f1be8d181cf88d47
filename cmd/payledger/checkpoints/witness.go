package checkpoints

import (
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
	"payledger/eventstore/replog"
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

// witness is a node's. Safe for concurrent use.
type witness struct {
	signer   *Signer
	node     *clusternode.Node
	log      *translog.Verifier // of the log's checkpoints
	cosigner *translog.Cosigner
	ctx      context.Context //nolint:containedctx // until close
	cancel   context.CancelFunc

	answering sync.RWMutex // close waits for the answers under way
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

// Witness lets this node and the others vouch. Peers are not answered yet.
func (s *Signer) Witness(node *clusternode.Node) (err error) {
	w := &witness{signer: s, node: node, log: s.Key.Verifier(), keys: make(map[string]string), silent: make(map[string]time.Time)}
	if w.cosigner, err = w.readKey(); err != nil {
		return err
	}
	w.keys[node.Node] = w.cosigner.VerifierKey()
	w.ctx, w.cancel = context.WithCancel(context.Background())
	node.Answer("POST "+cosignPath, w.unlessClosed(w.serveCosign))
	node.Answer("GET "+rootPath+"{size}", w.unlessClosed(w.serveRoot))
	s.nodes, s.signs = w, func() bool {
		_, here := node.Leader()
		return here
	}
	return nil
}

// readKey reads the node's key, and makes it the first time.
func (w *witness) readKey() (*translog.Cosigner, error) {
	file := w.signer.dir.WitnessKey()
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		var key string
		if key, err = translog.NewWitnessKey(rand.Reader, "payledger/"+w.node.Ledger.String()+"/"+w.node.Node); err == nil {
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

// close ends it: the node vouches for nothing more, and its tree is not used any more.
func (w *witness) close() {
	w.cancel()
	w.answering.Lock()
	defer w.answering.Unlock()
	w.closed = true
}

func (w *witness) unlessClosed(do http.HandlerFunc) http.HandlerFunc {
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

func (w *witness) serveCosign(rw http.ResponseWriter, r *http.Request) {
	a := answer{Key: w.cosigner.VerifierKey()}
	signed, err := io.ReadAll(io.LimitReader(r.Body, translog.MaxCheckpoint+1))
	if err == nil && len(signed) > 0 {
		signed, err = w.vouch(signed)
		a.Cosigned = string(signed)
	}
	differs, _ := errors.AsType[*translog.MismatchError](err)
	if err != nil {
		a.Error, a.Differs = err.Error(), differs != nil
	}
	b, _ := json.Marshal(a) // texts and a flag
	rw.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = rw.Write(b)  // asked again
	if differs != nil { // also if nobody waits for the answer any more
		_ = http.NewResponseController(rw).Flush() // shown asks the node that waits for it
		w.shown(differs.Checkpoint, differs.Root)
	}
}

func (w *witness) vouch(signed []byte) ([]byte, error) {
	c, signed, err := w.log.OpenAlone(signed)
	if err != nil {
		w.node.Report(fmt.Errorf("another node wants this one to vouch: %w", err))
		return nil, err
	}
	if w.node.Store.Status().Stopped != "" {
		return nil, errors.New("it takes no part any more")
	}
	ctx, cancel := context.WithTimeout(w.ctx, treeTime)
	defer cancel()
	root, err := w.signer.views.RootAt(ctx, c.Size)
	if err != nil {
		return nil, fmt.Errorf("it does not have the first %d events: %w", c.Size, err)
	}
	if root != c.Root {
		return nil, &translog.MismatchError{Checkpoint: c, Root: root}
	}
	if err := w.signer.keep(c, signed); err != nil {
		return nil, err
	}
	return w.cosigner.Cosign(w.log, signed)
}

// serveRoot answers a node that looks for where the logs differ.
func (w *witness) serveRoot(rw http.ResponseWriter, r *http.Request) {
	size, err := strconv.ParseUint(r.PathValue("size"), 10, 64)
	ctx, cancel := context.WithTimeout(w.ctx, treeTime)
	defer cancel()
	var root tlog.Hash
	if err == nil {
		root, err = w.signer.views.RootAt(ctx, eventstore.Position(size))
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusConflict)
		return
	}
	_, _ = rw.Write(root[:]) // asked again
}

// collect adds the cosignatures of this node and of the others, as far as they answer,
// to a checkpoint that this one has signed for its own tree, and counts them.
func (w *witness) collect(ctx context.Context, signed []byte) ([]byte, int) {
	c, err := w.log.Open(signed)
	if err != nil || w.node.Store.Status().Stopped != "" {
		return signed, 0
	}
	cosigned, err := w.cosigner.Cosign(w.log, signed)
	if err != nil {
		w.node.Report(fmt.Errorf("vouching for a checkpoint: %w", err))
		return signed, 0
	}
	n := 1
	var asked sync.WaitGroup
	var mu sync.Mutex
	for name := range w.node.Peers() {
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
				w.node.Report(fmt.Errorf("node %s does not vouch for the checkpoint of %d events: %s", name, c.Size, a.Error))
			}
		})
	}
	asked.Wait()
	return cosigned, n
}

// isSilent reports whether a node did not answer lately. Signing does not wait for it.
func (w *witness) isSilent(peer string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Since(w.silent[peer]) < silentTime
}

// request asks a node something. Only the node itself can show the certificate for its name.
func (w *witness) request(ctx context.Context, node, method, path string, body []byte) ([]byte, error) {
	asking, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	answer, err := replog.Request(asking, w.node.Port.Client(), method, peer.URL(node)+path, body)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w", node, err)
	}
	defer func() { _ = answer.Close() }()
	return io.ReadAll(io.LimitReader(answer, maxAnswer))
}

// ask asks a node to vouch.
func (w *witness) ask(ctx context.Context, node string, signed []byte) (a answer, by *translog.Witness, err error) {
	b, err := w.request(ctx, node, http.MethodPost, cosignPath, signed)
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
		w.node.Report(fmt.Errorf("node %s as a witness: %w", node, err))
		return a, nil, err
	}
	w.mu.Lock()
	w.keys[node] = by.Key()
	w.mu.Unlock()
	return a, by, nil
}

// WitnessKeys are the public keys of the nodes as witnesses, by name; those of nodes that have not
// answered since the start are missing.
func (s *Signer) WitnessKeys(ctx context.Context) map[string]string {
	w := s.nodes
	var asked sync.WaitGroup
	for name := range w.node.Peers() {
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
