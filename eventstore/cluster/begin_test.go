package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/founding"
	"payledger/eventstore/cluster/wire"
)

// TestAppendToTheFileBeforeItsLoop: a request that was under way while the file was alone
// appends to it after Share. It is refused, and Open goes on.
func TestAppendToTheFileBeforeItsLoop(t *testing.T) {
	t.Parallel()
	file, conn := alone(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	appended := make(chan error, 1)
	var once sync.Once
	_, err := Open(ctx, Config{
		Name: "A", Peers: []string{"B", "C"}, File: file, Conn: conn, Found: true, LOG: domain.ID{9}, Start: [8]byte{1}, Now: time.Now,
		Report: func(error) { // it waits for LOG
			once.Do(func() {
				late, end := context.WithTimeout(context.WithoutCancel(ctx), patienceOfTests)
				defer end()
				_, err := eventstore.AppendOne(late, file, paymentCommit(1, 0))
				appended <- err
				cancel()
			})
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Open: %v, want that it was given up", err)
	}
	if err := <-appended; !errors.Is(err, eventstore.ErrBusy) {
		t.Errorf("the commit: %v, want ErrBusy", err)
	}
}

// TestWhatIsMadeBeforeLOG: LOG is not made until what has to be there before it is.
func TestWhatIsMadeBeforeLOG(t *testing.T) {
	t.Parallel()
	x, calls := &three{t: t}, 0
	x.prepare = func(ctx context.Context, ledger domain.ID) error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		js, err := jetstream.New(x.conns[0])
		if err != nil {
			return err
		}
		if _, err := js.Stream(ctx, StreamName); !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Errorf("looking for LOG: %v", err)
		}
		if ledger != (domain.ID{1, 2, 3}) {
			t.Errorf("it prepares for the ledger %s", ledger)
		}
		return nil
	}
	x.start()
	if calls < 3 {
		t.Errorf("LOG was made after %d calls", calls)
	}
}

// TestEventsThatNoNodeHas: a node says which events it waits for before LOG begins.
func TestEventsThatNoNodeHas(t *testing.T) {
	t.Parallel()
	file, conn := alone(t)
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	var said error
	a := founding.Arrival{File: file, Conn: conn, Node: "B", Peers: []string{"A", "C"}, LOG: domain.ID{9}, Report: func(err error) {
		said = err
		cancel()
	}}
	if err := a.Arrive(ctx, founding.Base{Ledger: file.LogID(), LOG: domain.ID{9}, Last: 7}); !errors.Is(err, context.Canceled) {
		t.Errorf("Arrive: %v, want that it was given up", err)
	}
	if said == nil || !strings.Contains(said.Error(), "ends at position 0, and LOG begins behind position 7") {
		t.Errorf("it says %v", said)
	}
}

// TestRecordsInFrontOfLOG: a node that does not know where LOG begins gets nothing of a
// file that follows one, and any other nothing behind it.
func TestRecordsInFrontOfLOG(t *testing.T) {
	t.Parallel()
	file, _ := alone(t)
	for i := range 3 {
		if _, err := eventstore.AppendOne(t.Context(), file, paymentCommit(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	given := func(behind, upTo uint64) (n int) {
		t.Helper()
		request := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, behind), upTo)
		answer := founding.Behind(t.Context(), file, append(request, "B"...))
		if len(answer) == 0 {
			return -1
		}
		g, err := wire.DecodeGroup(answer)
		if err != nil {
			t.Fatal(err)
		}
		return len(g.Records)
	}
	if n := given(1, 0); n != 2 {
		t.Errorf("%d records behind 1 before there is LOG, want 2", n)
	}
	file.Share(bolt.Options{Replicate: func(*bolt.Group) error { return nil }})
	if err := file.Join(domain.ID{9}, 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		behind, upTo uint64
		want         int
	}{{1, 0, -1}, {1, 2, 1}, {1, 3, 2}, {2, 2, 0}, {3, 2, 0}} {
		if n := given(c.behind, c.upTo); n != c.want {
			t.Errorf("%d records behind %d up to %d, want %d", n, c.behind, c.upTo, c.want)
		}
	}
}

// alone is a log and a connection to a server without JetStream and other nodes.
func alone(t *testing.T) (*bolt.Store, *nats.Conn) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	server, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(server.Shutdown)
	conn, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return file, conn
}
