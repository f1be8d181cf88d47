package cluster

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestAppendToTheFileBeforeItsLoop: a request that was under way while the file was alone
// appends to it after Share. It is refused, and Open goes on.
func TestAppendToTheFileBeforeItsLoop(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	server, err := natsserver.NewServer(&natsserver.Options{DontListen: true, NoSigs: true, NoLog: true}) // without JetStream there is no LOG
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer server.Shutdown()
	conn, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	appended := make(chan error, 1)
	var once sync.Once
	_, err = Open(ctx, Config{
		Name: "A", Peers: []string{"B", "C"}, Path: path, File: file, Conn: conn, Found: true, LOG: domain.ID{9}, Start: [8]byte{1}, Now: time.Now,
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
