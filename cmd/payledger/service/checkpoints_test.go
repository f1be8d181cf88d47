package service

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/notifier/health/healthtest"
)

// opensCore opens a fresh directory; the test closes it. Several goroutines
// write to log.
func opensCore(t *testing.T, d datadir.Dir, log io.Writer) *core {
	t.Helper()
	c, err := openCore(t.Context(), d, CoreOptions{Log: zerolog.New(log)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *core) register(t *testing.T) {
	t.Helper()
	id := "prj_" + c.ids.Next().String()
	_, err := eventstore.Execute(t.Context(), c.ledger, eventstore.ProjectStream(id), projects.Project{ID: id},
		projects.ProjectCommand(projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()}),
		eventstore.Order{EventID: c.ids.Next(), New: true})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNothingSmallerIsSigned: a tree that does not go on from the newest
// checkpoint gets no signature, and the file stays.
func TestNothingSmallerIsSigned(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	c := opensCore(t, d, io.Discard)
	defer func() { _ = c.close() }()
	c.register(t)
	signed, err := c.signed.checkpoint(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]func(){
		"smaller": func() { c.signed.newest.Size++ },
		"altered": func() { c.signed.newest.Root[0]++ },
	} {
		was := c.signed.newest
		other()
		if got, err := c.signed.checkpoint(t.Context()); err == nil {
			t.Errorf("%s: signed %q", name, got)
		}
		c.signed.newest = was
	}
	file, err := os.ReadFile(d.Checkpoint())
	if err != nil || !bytes.Equal(file, signed) {
		t.Errorf("the file holds %q, %v; want %q", file, err, signed)
	}
	if again, err := c.signed.checkpoint(t.Context()); err != nil || !bytes.Equal(again, signed) {
		t.Errorf("the control: %q, %v", again, err)
	}
}

// TestUnwrittenCheckpointsStayHere: what could not be written is not handed
// out; that is said once, and the next try covers all of it.
func TestUnwrittenCheckpointsStayHere(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	var log healthtest.Buffer
	c := opensCore(t, d, &log)
	defer func() { _ = c.close() }()
	var published int
	c.signed.publish = func([]byte) { published++ }
	file := c.signed.file
	c.signed.file = filepath.Join(string(d), "missing", "checkpoint")
	c.register(t)
	for range 3 {
		c.signed.sign(t.Context())
	}
	if _, err := c.signed.checkpoint(t.Context()); err == nil || c.signed.newest.Size != 0 || published > 0 {
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

// TestCheckpointAtTheEnd covers what came last, and what a killed process left
// behind of one is removed.
func TestCheckpointAtTheEnd(t *testing.T) {
	t.Parallel()
	d := newDirectory(t)
	c := opensCore(t, d, io.Discard)
	c.register(t)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	left := d.Checkpoint() + ".123.tmp"
	if err := os.WriteFile(left, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = opensCore(t, d, io.Discard)
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
	c := opensCore(t, d, io.Discard)
	defer func() { _ = c.close() }()
	c.register(t)
	signed, err := c.signed.checkpoint(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan []byte, 8)
	stop := c.signed.follow(func(b []byte) { got <- b })
	if first := <-got; !bytes.Equal(first, signed) {
		t.Errorf("first %q, want %q", first, signed)
	}
	c.register(t)
	if next := <-got; bytes.Equal(next, signed) {
		t.Error("the same again")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	c.register(t)
	if len(got) > 0 {
		t.Error("signed after the end")
	}
}

func newDirectory(t *testing.T) datadir.Dir {
	t.Helper()
	d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
	if err := d.Initialise(); err != nil {
		t.Fatal(err)
	}
	return d
}
