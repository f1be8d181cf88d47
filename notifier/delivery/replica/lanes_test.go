package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/delivery/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = time.Minute

// bench is a JetStream server and the lane files of some nodes.
type bench struct {
	t  *testing.T
	js jetstream.JetStream
	nc *nats.Conn
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		DontListen: true, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	b := &bench{t: t}
	if b.nc, err = nats.Connect("", nats.InProcessServer(s)); err != nil {
		t.Fatal(err)
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
	})
	return b
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *bench) file() *store.File {
	b.t.Helper()
	dir := b.t.TempDir()
	f, err := store.Open(b.t.Context(), store.Options{
		Path: filepath.Join(dir, "lanes.db"), Mark: filepath.Join(dir, "lanes.mark"), LogID: domain.ID{1}, Store: memory.New(),
		Now: time.Now, Log: zerolog.Nop(),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = f.Abandon() })
	return f
}

// copied is another node's file that has what f has.
func (b *bench) copied(f *store.File) *store.File {
	b.t.Helper()
	other := b.file()
	if err := other.Apply(b.place(f), nil); err != nil {
		b.t.Fatal(err)
	}
	return other
}

func (b *bench) place(f *store.File) store.Place {
	b.t.Helper()
	at, err := f.Shared()
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

func (b *bench) config(node byte) Config {
	return Config{
		JetStream: b.js, LogID: domain.ID{1}, Replicas: 1, Random: [8]byte{node}, Forgotten: 300 * time.Millisecond,
		Report: func(err error) { b.t.Logf("node %d: %v", node, err) },
	}
}

func (b *bench) node(n byte, f *store.File, found bool) *Lanes {
	b.t.Helper()
	l, err := Open(b.context(), b.config(n), f, found)
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

func (b *bench) lead(l *Lanes) {
	b.t.Helper()
	if err := l.Lead(b.context(), false); err != nil {
		b.t.Fatal(err)
	}
}

// change makes the file say that the fan-out got to a position, with rows of so many
// bytes beside it.
func change(f *store.File, to eventstore.Position, bytes int) error {
	return f.Update(1, func(x *store.Tx) error {
		x.SetAfter(to)
		for n := store.Number(1); bytes > 0; n++ {
			x.PutEndpoint(n, "prj", fmt.Sprintf("%04000d", n), store.Tally{})
			bytes -= 4000
		}
		return nil
	})
}

func (b *bench) after(f *store.File) (at eventstore.Position) {
	b.t.Helper()
	err := f.View(func(t store.Tables) error {
		at, _ = t.Progress()
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return at
}

func (b *bench) unknown(f *store.File) (unknown bool) {
	b.t.Helper()
	err := f.View(func(t store.Tables) error {
		unknown = t.RequestsUnknown()
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return unknown
}

// follows runs Follow until the file is where the other one is.
func (b *bench) follows(l *Lanes, f, other *store.File) {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := l.Follow(ctx); !errors.Is(err, context.Canceled) {
			b.t.Errorf("following: %v", err)
		}
	})
	for b.place(f).Number < b.place(other).Number && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	cancel()
	running.Wait()
	if got, want := b.place(f), b.place(other); got != want || b.after(f) != b.after(other) {
		b.t.Errorf("the file is at %v, %d, want %v, %d", got, b.after(f), want, b.after(other))
	}
}

// Files follow the one that leads, entries of several messages too; who takes over has
// all of them, and the one before changes nothing any more.
func TestOneLeads(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.file()
	a := b.node(1, first, true)
	second, third := b.copied(first), b.copied(first)
	b.lead(a)
	for i, size := range []int{0, 100, 3 * maxPart, 0} {
		if err := change(first, eventstore.Position(i+1), size); err != nil {
			t.Fatal(err)
		}
	}
	b.follows(b.node(3, third, false), third, first)

	b.lead(b.node(2, second, false))
	if b.after(second) != 4 {
		t.Errorf("the second one leads with position %d, want 4", b.after(second))
	}
	for range 2 {
		if err := change(first, 9, 0); !errors.Is(err, ErrLost) || b.after(first) != 4 {
			t.Errorf("the first one: %v, at %d", err, b.after(first))
		}
	}
	if err := change(second, 5, 0); err != nil {
		t.Fatal(err)
	}
	b.follows(b.node(3, third, true), third, second)
}

// What a node published of an entry before it ended counts for nothing without its
// last message.
func TestEntryWithoutItsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.file()
	a := b.node(1, first, true)
	second, third := b.copied(first), b.copied(first)
	b.lead(a)
	parts := split([8]byte{1}, append([]byte{1}, make([]byte, 2*maxPart)...))
	for _, m := range parts[:2] {
		if err := a.publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	c := b.node(2, second, false)
	b.lead(c)
	if err := change(second, 7, 0); err != nil {
		t.Fatal(err)
	}
	b.follows(b.node(3, third, false), third, second)
}

// An answer that is lost is no refusal: LANES is asked what it has in the place.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := b.file()
	a := b.node(1, f, true)
	b.lead(a)
	a.config.JetStream = deaf{a.config.JetStream}
	if err := change(f, 3, 2*maxPart); err != nil || b.after(f) != 3 {
		t.Errorf("%v, at %d", err, b.after(f))
	}
}

// deaf loses the answers to what it publishes.
type deaf struct{ jetstream.JetStream }

func (d deaf) Publish(ctx context.Context, to string, data []byte, o ...jetstream.PublishOpt) (*jetstream.PubAck, error) {
	if _, err := d.JetStream.Publish(ctx, to, data, o...); err != nil {
		return nil, err
	}
	return nil, nats.ErrTimeout
}

// A file that LANES does not follow from has to be replaced: one that shares nothing
// yet, one that is too far behind, one with another entry.
func TestFilesThatDoNotFit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := b.file()
	if _, err := Open(t.Context(), b.config(1), f, false); !errors.Is(err, ErrMissing) {
		t.Errorf("before LANES is made: %v", err)
	}
	a := b.node(1, f, true)
	behind, other := b.copied(f), b.file()
	b.lead(a)
	if err := other.Apply(store.Place{Number: b.place(f).Number, Sum: [8]byte{1}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := change(f, 3, 0); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, f *store.File) {
		t.Helper()
		for do, follow := range map[string]func(*Lanes) error{
			"follows": func(l *Lanes) error { return l.Follow(b.context()) }, "leads": func(l *Lanes) error { return l.Lead(b.context(), false) },
		} {
			if err := follow(b.node(2, f, false)); !errors.Is(err, ErrBehind) {
				t.Errorf("%s %s: %v", what, do, err)
			}
		}
	}
	refused("a new file", b.file())
	refused("a file of another history", other)
	if err := a.stream.Purge(t.Context(), jetstream.WithPurgeSequence(b.place(f).Number)); err != nil {
		t.Fatal(err)
	}
	refused("a file that is behind", behind)
	if _, err := Open(t.Context(), Config{JetStream: b.js, LogID: domain.ID{2}}, f, true); !errors.Is(err, ErrForeign) {
		t.Errorf("the file of another log: %v", err)
	}
}

// If LANES is lost or has forgotten its end, it begins anew behind the file of the node
// that leads; a file that has what is forgotten has to be replaced.
func TestLANESForgets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := b.file()
	a := b.node(1, f, true)
	ahead := b.copied(f)
	b.lead(a)
	if err := change(f, 3, 0); err != nil {
		t.Fatal(err)
	}
	if err := ahead.Apply(store.Place{Number: b.place(f).Number + 1, Sum: [8]byte{7}}, nil); err != nil {
		t.Fatal(err)
	}
	last := b.place(f).Number
	if err := b.js.DeleteStream(t.Context(), StreamName); err != nil {
		t.Fatal(err)
	}
	empty := b.file()
	if err := empty.Apply(store.Place{Number: 1}, nil); err != nil {
		t.Fatal(err)
	}
	b.node(9, empty, true) // makes a LANES that ends before the file
	a = b.node(1, f, false)
	b.lead(a)
	if err := change(f, 4, 0); err != nil || b.place(f).Number != last+2 {
		t.Errorf("%v, entry %d, want %d", err, b.place(f).Number, last+2)
	}
	if err := b.node(2, ahead, false).Follow(b.context()); !errors.Is(err, ErrBehind) {
		t.Errorf("a file with an entry that was forgotten: %v", err)
	}
}

// Where all files that LANES follows from are lost, it begins anew with one that shares
// nothing. The node that led changes nothing any more, and its file is behind if it comes
// back.
func TestFilesAreLost(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{-1, 0, 3} { // before anybody led, without a change, with some
		b := newBench(t)
		gone := b.file()
		a := b.node(1, gone, true)
		if entries >= 0 {
			b.lead(a)
		}
		for i := range entries {
			if err := change(gone, eventstore.Position(i+1), 0); err != nil {
				t.Fatal(err)
			}
		}
		fresh := b.file()
		if err := b.node(2, fresh, false).Lead(b.context(), true); err != nil {
			t.Fatal(err)
		}
		if err := change(fresh, 9, 0); err != nil {
			t.Fatal(err)
		}
		if b.unknown(gone) || !b.unknown(fresh) {
			t.Errorf("with %d entries, requests are unknown to the lost file: %v, to the new one: %v", entries, b.unknown(gone), b.unknown(fresh))
		}
		if entries >= 0 {
			a.config.Ending = func() bool { return true } // it does not insist
			if err := change(gone, 5, 0); !errors.Is(err, ErrLost) {
				t.Errorf("with %d entries, the node that led: %v", entries, err)
			}
		}
		if err := b.node(1, gone, true).Follow(b.context()); !errors.Is(err, ErrBehind) {
			t.Errorf("with %d entries, the lost file comes back: %v", entries, err)
		}
		third := b.copied(fresh)
		if err := change(fresh, 10, 0); err != nil {
			t.Fatal(err)
		}
		b.follows(b.node(3, third, false), third, fresh)
	}
}

// What somebody else publishes to LANES ends the part of a node with an error that
// names the message.
func TestStrangeMessage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	f := b.file()
	a := b.node(1, f, true)
	if _, err := b.js.Publish(t.Context(), Subject, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := a.Follow(b.context()); !errors.Is(err, errMessage) || !strings.Contains(err.Error(), "message 2 of LANES") {
		t.Error(err)
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range split([8]byte{1}, []byte("entry")) {
		f.Add(m.encode())
	}
	f.Add([]byte(strings.Repeat("x", headSize)))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decode(b)
		if err != nil {
			return
		}
		if !bytes.Equal(m.encode(), b) {
			t.Errorf("%x is written as %x", b, m.encode())
		}
		var j joining
		_, _, _ = j.join(m)
	})
}

// missing is LANES for consumers that miss a Stop, as one does that is being made anew.
type missing struct {
	jetstream.Stream
	reading chan<- jetstream.MessagesContext
}

func (m missing) OrderedConsumer(ctx context.Context, c jetstream.OrderedConsumerConfig) (jetstream.Consumer, error) {
	consumer, err := m.Stream.OrderedConsumer(ctx, c)
	return missingConsumer{consumer, m.reading}, err
}

type missingConsumer struct {
	jetstream.Consumer
	reading chan<- jetstream.MessagesContext
}

func (c missingConsumer) Messages(o ...jetstream.PullMessagesOpt) (jetstream.MessagesContext, error) {
	m, err := c.Consumer.Messages(o...)
	c.reading <- m
	return missingMessages{m}, err
}

type missingMessages struct{ jetstream.MessagesContext }

func (missingMessages) Stop() {}

// TestFollowEndsThoughAStopIsMissed: a node that follows has to end that before it can lead.
func TestFollowEndsThoughAStopIsMissed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	l := b.node(1, b.file(), true)
	reading := make(chan jetstream.MessagesContext, 1)
	l.stream = missing{l.stream, reading}
	ctx, cancel := context.WithCancel(b.context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- l.Follow(ctx) }()
	messages := <-reading
	defer messages.Stop()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
}
