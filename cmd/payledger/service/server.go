package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	"payledger/cmd/payledger/members"
	"payledger/cmd/payledger/movein"
	"payledger/cmd/payledger/otlp"
	"payledger/cmd/payledger/process"
	"payledger/eventstore/tracing"
	"payledger/httpapi/conns"
)

// server is what serves a directory, and what stays when the directory moves into a
// cluster.
type server struct {
	Options
	dir   datadir.Dir
	ready func(Addresses) error
	end   *process.Shutdown

	metrics   *prometheus.Registry
	committed func(commits int, took time.Duration)
	tracer    *tracing.Tracer
	room      process.Connections

	gate     *httpserver.Gate // of the public listener
	listener net.Listener
	servers  []*httpserver.Server // of the public and the operator's listener
	at       Addresses
	serving  bool

	beginning sync.Mutex // held while it is tried to move
	moves     chan *movein.Moving
	moved     *movein.Moving // nil: the directory is what it was at the start
}

// start starts what has nothing to do with the directory.
func (s *server) start() (err error) {
	started := s.end.Started
	if s.FlushLog != nil {
		started("the log records", s.FlushLog)
	}
	started("the libraries' logs", process.TakeLibraryLogs(s.Log))

	started("the heap's limit", process.RoomyHeap())
	started("the processors", process.MoreProcessors())
	s.metrics = newMetrics()
	s.committed = commitMetrics(s.metrics)
	version, _ := process.BuiltFrom()
	tracer, stop := otlp.Start(otlp.Config{Version: version, Log: s.Log, Metrics: s.metrics})
	s.tracer = tracer
	started("the export of traces", stop)
	started("the listeners", s.shutServers)
	s.room, err = process.RoomFor(s.Connections, s.PerAddress, s.Log)
	return err
}

// listen takes the public address.
func (s *server) listen(ctx context.Context, key string) (err error) {
	if s.listener, err = httpserver.Listen(ctx, "listen", s.Listen); err != nil {
		return err
	}
	s.end.Started("the listener", func() error {
		if s.moved != nil { // it is served
			return nil
		}
		return ignoreNetClosed(s.listener.Close())
	})
	s.at = Addresses{BaseURL: s.PublicURL, Data: string(s.dir), VerifierKey: key}
	if s.at.BaseURL == "" {
		s.at.BaseURL = "http://" + httpserver.Reachable(s.listener.Addr())
	}
	late, err := movein.Late(s.Log, s.at.BaseURL)
	s.gate = httpserver.NewGate(late)
	return err
}

// bounded serves a listener.
func (s *server) bounded(l net.Listener, h http.Handler, m prometheus.Registerer, c conns.Config) (*httpserver.Server, error) {
	c.Log, c.Metrics = s.Log, m
	server, err := httpserver.Serve(l, h, c)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return server, nil
}

// answer serves the operator's and the public listener.
func (s *server) answer(ctx context.Context) error {
	if s.AdminListen != "" {
		l, err := httpserver.Listen(ctx, "admin-listen", httpserver.OnLoopback(s.AdminListen))
		if err != nil {
			return err
		}
		s.at.AdminAddress = l.Addr().String()
		server, err := s.bounded(l, operatorHandler(s.metrics), s.metrics, conns.Config{Name: "operator", Max: httpserver.MaxAdminConnections})
		if err != nil {
			return err
		}
		s.servers = append(s.servers, server)
	}
	server, err := s.bounded(s.listener, s.gate, s.metrics, conns.Config{Name: "public", Max: s.room.All, PerAddress: s.room.PerAddress})
	if err != nil {
		return err
	}
	s.servers = append(s.servers, server)
	return nil
}

// shutServers lets the requests under way finish.
func (s *server) shutServers() error {
	servers := s.servers
	s.servers = nil
	return httpserver.ShutdownAll(s.ShutdownTimeout, servers)
}

// up logs where the service can be reached.
func (s *server) up() {
	up := s.Log.Info().Str("base_url", s.at.BaseURL).Str("listen", s.listener.Addr().String()).Str("data", string(s.dir)).
		Int("max_connections", s.room.All)
	if s.at.AdminAddress != "" {
		up.Str("admin_listen", s.at.AdminAddress)
	}
	if s.at.NATSAddress != "" {
		up.Str("nats_listen", s.at.NATSAddress).Bool("nats_tls", s.NATSTLS != nil)
	}
	up.Msg("ready")
	s.serving = true
}

// begin has the directory begin as a node once it can. The error says why it goes on
// alone.
func (s *server) begin(ctx context.Context, c *core) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.stopping, cancel)()
	if !s.beginning.TryLock() {
		return errors.New("it is under way already")
	}
	defer s.beginning.Unlock()
	if err := s.nodeable(s.dir); err != nil {
		return err
	}
	if err := c.signed.Whole(ctx); err != nil {
		return fmt.Errorf("the log is still being compared with its newest checkpoint: %w", err)
	}
	next, err := movein.Prepare(ctx, s.dir, c.store, s.NodeListen, s.NATS, s.Log)
	if err == nil {
		s.moves <- next
	}
	return err
}

// move stops everything that is on the directory as one that is alone, but for the log
// and the public listener, and makes it a node durably. What is sent to merchants ends
// first, since that may take a while.
func (s *server) move(c *core, b *messaging, next *movein.Moving, mark int) error {
	s.moved = next
	err := b.stopSending()
	c.closeLog = func() error { c.leaveLog(); return nil }
	if err = errors.Join(err, s.end.Back(mark)); err == nil {
		err = members.Begin(s.dir)
	}
	if err != nil {
		return errors.Join(err, next.Abandon(), next.File.Close())
	}
	return nil
}
