package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	"payledger/cmd/payledger/otlp"
	"payledger/cmd/payledger/process"
	"payledger/eventstore/tracing"
	"payledger/httpapi/conns"
)

// server is what serves a directory.
type server struct {
	Options
	dir   datadir.Dir
	ready func(Addresses) error
	end   *process.Shutdown

	metrics   *prometheus.Registry
	committed func(commits int, took time.Duration)
	tracer    *tracing.Tracer
	room      process.Connections

	listener net.Listener         // of the public address
	servers  []*httpserver.Server // of the listeners and the admin socket
	at       Addresses
	serving  bool
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
	s.room, err = process.RoomFor(s.Connections, s.PerAddress, s.Log)
	return err
}

// listen takes the public address.
func (s *server) listen(ctx context.Context, key string) (err error) {
	if s.listener, err = httpserver.Listen(ctx, "listen", s.Listen); err != nil {
		return err
	}
	s.end.Started("the listener", func() error { return ignoreNetClosed(s.listener.Close()) })
	s.at = Addresses{BaseURL: s.PublicURL, Data: string(s.dir), VerifierKey: key}
	if s.at.BaseURL == "" {
		s.at.BaseURL = "http://" + httpserver.Reachable(s.listener.Addr())
	}
	return nil
}

// bounded serves a listener.
func (s *server) bounded(l net.Listener, h http.Handler, c conns.Config) (*httpserver.Server, error) {
	c.Log, c.Metrics = s.Log, s.metrics
	server, err := httpserver.Serve(l, h, c)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return server, nil
}

// answer serves the operator's and the public listener.
func (s *server) answer(ctx context.Context, public http.Handler) error {
	if s.AdminListen != "" {
		l, err := httpserver.Listen(ctx, "admin-listen", httpserver.OnLoopback(s.AdminListen))
		if err != nil {
			return err
		}
		s.at.AdminAddress = l.Addr().String()
		server, err := s.bounded(l, operatorHandler(s.metrics), conns.Config{Name: "operator", Max: httpserver.MaxAdminConnections})
		if err != nil {
			return err
		}
		s.servers = append(s.servers, server)
	}
	server, err := s.bounded(s.listener, public, conns.Config{Name: "public", Max: s.room.All, PerAddress: s.room.PerAddress})
	if err != nil {
		return err
	}
	s.servers = append(s.servers, server)
	return nil
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
