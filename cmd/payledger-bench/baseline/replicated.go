package baseline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// inThree stores events in a stream of three servers. All are in this process, with routes between
// them.
func inThree(ctx context.Context, dir string) (keeper, error) {
	servers, err := startThree(dir)
	stop := func() {
		var all sync.WaitGroup // in sequence the last ones would wait for the others
		for _, s := range servers {
			all.Go(func() {
				s.Shutdown()
				s.WaitForShutdown()
			})
		}
		all.Wait()
	}
	if err != nil {
		stop()
		return keeper{}, err
	}
	nc, err := nats.Connect("", nats.InProcessServer(servers[0]))
	if err != nil {
		stop()
		return keeper{}, err
	}
	js, err := jetstream.New(nc)
	if err == nil {
		err = eventually(ctx, func() error {
			ctx, cancel := context.WithTimeout(ctx, time.Second/2) // there is no answer until they have elected a leader
			defer cancel()
			_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: stream, Subjects: []string{"log"}, Replicas: len(servers)})
			return err
		})
	}
	if err != nil {
		nc.Close()
		stop()
		return keeper{}, err
	}
	keep, end := group(func(all []*entry) error {
		var lines bytes.Buffer
		for _, e := range all {
			lines.Write(e.event)
			lines.WriteByte('\n')
		}
		_, err := js.Publish(ctx, "log", lines.Bytes())
		return err
	})
	return keeper{
		keep: keep, backlog: idle, get: func(string) []byte { return nil },
		close: func() error {
			end()
			nc.Close()
			stop()
			return nil
		},
	}, nil
}

// startThree starts the servers. Those that were started are returned with an error too.
func startThree(dir string) ([]*natsserver.Server, error) {
	var taken []net.Listener // until the last port is known
	var ports []int
	var routes []*url.URL
	var err error
	for range 3 {
		l, listenErr := net.Listen("tcp", "127.0.0.1:0")
		if err = errors.Join(err, listenErr); err == nil {
			taken, ports = append(taken, l), append(ports, l.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // of "tcp"
			routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		}
	}
	for _, l := range taken {
		err = errors.Join(err, l.Close())
	}
	if err != nil {
		return nil, err
	}
	return started(dir, ports, routes)
}

func started(dir string, ports []int, routes []*url.URL) (all []*natsserver.Server, err error) {
	for i, port := range ports {
		s, err := natsserver.NewServer(&natsserver.Options{
			ServerName: fmt.Sprint("n", i), Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, JetStream: true, StoreDir: filepath.Join(dir, fmt.Sprint("nats", i)),
			DisableJetStreamBanner: true, JetStreamMaxStore: 1 << 60, JetStreamMaxMemory: 64 << 20, SyncAlways: true,
			Cluster: natsserver.ClusterOpts{Name: "bench", Host: "127.0.0.1", Port: port}, Routes: routes,
		})
		if err != nil {
			return all, fmt.Errorf("starting NATS: %w", err)
		}
		all = append(all, s)
		go s.Start()
	}
	for _, s := range all {
		if !s.ReadyForConnections(10 * time.Second) {
			return all, errors.New("NATS was not ready within 10s")
		}
	}
	return all, nil
}

// eventually tries something until it succeeds, for half a minute.
func eventually(ctx context.Context, try func() error) (err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 300 {
		if err = try(); err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
	return err
}
