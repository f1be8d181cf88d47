package baseline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	stream  = "EVENTS"
	subject = "payledger.v1.events.prj_01M7W78FJBM8T4R7B5N0C1D2E3.payment.created"

	inFlight = 256  // publishes that JetStream has not answered
	queued   = 4096 // payments that wait to be published; beyond, answers wait
)

// inFileAndJetStream is inFile, followed by a publish and a delivery for each payment. They cannot
// lag far: a group waits until it fits in the queue.
func inFileAndJetStream(ctx context.Context, dir string) (keeper, error) {
	server, err := startNATS(filepath.Join(dir, "nats"))
	if err != nil {
		return keeper{}, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		return keeper{}, err
	}
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(inFlight))
	if err != nil {
		return keeper{}, err
	}
	var delivered, expected atomic.Int64
	messages, err := consume(ctx, js)
	if err != nil {
		return keeper{}, err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			if _, err := messages.Next(); err != nil {
				return // it was stopped
			}
			delivered.Add(1)
		}
	})
	queue := make(chan *entry, queued)
	running.Go(func() {
		for e := range queue {
			// An answer that does not come leaves the backlog open.
			_, _ = js.PublishAsync(subject, e.event)
		}
	})
	k, err := inFile(dir, func(all []*entry) {
		expected.Add(int64(len(all)))
		for _, e := range all {
			queue <- e
		}
	})
	if err != nil {
		return keeper{}, err
	}
	closeFile := k.close
	k.backlog = func() int { return int(expected.Load() - delivered.Load()) }
	k.close = func() error {
		err := closeFile()
		close(queue)
		messages.Stop()
		nc.Close()
		running.Wait()
		server.Shutdown()
		server.WaitForShutdown()
		return err
	}
	return k, nil
}

func startNATS(dir string) (*natsserver.Server, error) {
	server, err := natsserver.NewServer(&natsserver.Options{
		DontListen: true, NoSigs: true, JetStream: true, StoreDir: dir, DisableJetStreamBanner: true,
		JetStreamMaxStore: 1 << 60, JetStreamMaxMemory: 64 << 20,
	})
	if err != nil {
		return nil, fmt.Errorf("starting NATS: %w", err)
	}
	go server.Start()
	if !server.ReadyForConnections(10 * time.Second) {
		return nil, errors.New("NATS was not ready within 10s")
	}
	return server, nil
}

func consume(ctx context.Context, js jetstream.JetStream) (jetstream.MessagesContext, error) {
	s, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: stream, Subjects: []string{subject}, Storage: jetstream.FileStorage, MaxMsgsPerSubject: -1,
	})
	if err != nil {
		return nil, err
	}
	c, err := s.CreateConsumer(ctx, jetstream.ConsumerConfig{
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return nil, err
	}
	return c.Messages(jetstream.PullMaxMessages(512))
}
