package checkpoints

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/health/healthtest"
	"payledger/projections"
)

// opened is a directory with a log that grows.
type opened struct {
	store  *bolt.Store
	ids    *domain.IDs
	views  *projections.Engine
	signed *Signer

	stop      context.CancelFunc
	done      chan error
	comparing sync.WaitGroup
}

// open opens a directory; the test closes it. Several goroutines write to log.
func open(t *testing.T, d datadir.Dir, log io.Writer) *opened {
	t.Helper()
	store, err := d.Open(bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := d.LogSigner(store.LogID())
	if err != nil {
		t.Fatal(err)
	}
	last, err := store.LastID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{store: store, ids: domain.NewIDs(time.Now, rand.Reader, last), done: make(chan error, 1)}
	o.views, o.signed, err = Open(t.Context(), d, Options{Store: store, Key: signer, Log: zerolog.New(log), Now: time.Now},
		projections.Config{Path: d.Projections(), Store: store, Codec: eventstore.NewCodec(), LogID: store.LogID()})
	if err != nil {
		t.Fatal(errors.Join(err, store.Close()))
	}
	ctx, stop := context.WithCancel(context.Background())
	o.stop = stop
	go func() { o.done <- o.views.Run(ctx) }()
	o.comparing.Go(func() { _ = o.signed.Compare(ctx) })
	return o
}

func (o *opened) close() error {
	o.signed.Finish()
	o.stop()
	o.comparing.Wait()
	<-o.done //nolint:errcheck // stop ended it
	return errors.Join(o.views.Close(), o.store.Close())
}

func (o *opened) register(t *testing.T) eventstore.Position {
	t.Helper()
	id := "prj_" + o.ids.Next().String()
	r, err := eventstore.Execute(t.Context(), eventstore.Ledger{Store: o.store, Codec: eventstore.NewCodec()}, eventstore.ProjectStream(id), projects.Project{ID: id},
		projects.ProjectCommand(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()}),
		eventstore.Order{EventID: o.ids.Next(), New: true})
	if err != nil {
		t.Fatal(err)
	}
	return r.Stored.Position
}

func newDirectory(t *testing.T) datadir.Dir {
	t.Helper()
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	return d
}

// grown is a directory whose log has grown to so many events, all of them signed for.
func grown(t *testing.T, d datadir.Dir, events eventstore.Position) datadir.Dir {
	t.Helper()
	c := open(t, d, io.Discard)
	for c.register(t) < events {
	}
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestNothingSmallerIsSigned: a tree that does not go on from the newest
// checkpoint gets no signature, and the file stays.
func TestNothingSmallerIsSigned(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	c := open(t, d, io.Discard)
	defer func() { _ = c.close() }()
	c.register(t)
	signed, err := c.signed.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]func(){
		"smaller": func() { c.signed.newest.Size++ },
		"altered": func() { c.signed.newest.Root[0]++ },
	} {
		was := c.signed.newest
		other()
		if got, err := c.signed.Checkpoint(t.Context()); err == nil {
			t.Errorf("%s: signed %q", name, got)
		}
		c.signed.newest = was
	}
	file, err := os.ReadFile(d.Checkpoint())
	if err != nil || !bytes.Equal(file, signed) {
		t.Errorf("the file holds %q, %v; want %q", file, err, signed)
	}
	if again, err := c.signed.Checkpoint(t.Context()); err != nil || !bytes.Equal(again, signed) {
		t.Errorf("the control: %q, %v", again, err)
	}
}

// TestUnwrittenCheckpointsStayHere: what could not be written is not handed
// out; that is said once, and the next try covers all of it.
func TestUnwrittenCheckpointsStayHere(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	var log healthtest.Buffer
	c := open(t, d, &log)
	defer func() { _ = c.close() }()
	var published int
	c.signed.publish = func([]byte) { published++ }
	file := c.signed.file
	c.signed.file = filepath.Join(string(d), "missing", "checkpoint")
	c.register(t)
	for range 3 {
		c.signed.sign(t.Context())
	}
	if _, err := c.signed.Checkpoint(t.Context()); err == nil || c.signed.newest.Size != 0 || published > 0 {
		t.Errorf("unwritten: %v, %q, published %d times", err, c.signed.signed, published)
	}
	if n := strings.Count(log.String(), "no checkpoint could be signed"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	c.signed.file = file
	c.register(t)
	c.signed.sign(t.Context())
	if c.signed.newest.Size != 2 || published != 1 || !strings.Contains(log.String(), "signed again") {
		t.Errorf("afterwards: size %d, published %d times\n%s", c.signed.newest.Size, published, log.String())
	}
}

// TestUnwrittenCosignatures: a checkpoint whose cosignatures cannot be stored is handed out all the
// same, and the nodes are not asked again at once.
func TestUnwrittenCosignatures(t *testing.T) {
	t.Parallel()
	c := open(t, newDirectory(t), io.Discard)
	defer func() { _ = c.close() }()
	c.register(t)
	signed, err := c.signed.Checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := newDirectory(t).ReadLogKey()
	if err != nil {
		t.Fatal(err)
	}
	// With this key it vouches for nothing.
	c.signed.nodes = &witness{log: other.Verifier(), node: &clusternode.Node{Cluster: &clusternode.Cluster{Nodes: make([]clusternode.Address, 1)}}}
	defer func() { c.signed.nodes = nil }()
	c.signed.file = filepath.Join(t.TempDir(), "missing", "checkpoint")
	if got, err := c.signed.stored(t.Context()); err == nil || !bytes.Equal(got, signed) {
		t.Errorf("%q, %v; want %q and an error", got, err, signed)
	}
	if !c.signed.settled() {
		t.Error("the nodes are asked again at once")
	}
}

// TestCheckpointAtTheEnd covers what came last, and what a killed process left
// behind of one is removed.
func TestCheckpointAtTheEnd(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	c := open(t, d, io.Discard)
	c.register(t)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	left := d.Checkpoint() + ".123.tmp"
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = open(t, d, io.Discard)
	defer func() { _ = c.close() }()
	if c.signed.newest.Size != 1 {
		t.Errorf("the newest checkpoint covers %d events, want 1", c.signed.newest.Size)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("%s is still there", left)
	}
}

// TestFollowEnds: signing stops when its context ends, and the checkpoint that the
// previous run signed last is handed out.
func TestFollowEnds(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	c := open(t, d, io.Discard)
	defer func() { _ = c.close() }()
	c.register(t)
	signed, err := c.signed.Checkpoint(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 8)
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { c.signed.Follow(ctx, func(b []byte) { got <- b }) })
	if first := <-got; !bytes.Equal(first, signed) {
		t.Errorf("first %q, want %q", first, signed)
	}
	c.register(t)
	if next := <-got; bytes.Equal(next, signed) {
		t.Error("the same again")
	}
	stop()
	following.Wait()
	c.register(t)
	if len(got) > 0 {
		t.Error("signed after the end")
	}
}
