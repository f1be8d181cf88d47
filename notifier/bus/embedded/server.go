// Package embedded is the NATS server in this process: its accounts and the
// credentials of outsiders, the watch over JetStream's directory and its repairs.
//
// Everything in JetStream is derived from the log or sent again, so the server syncs nothing by
// itself, and a directory that it cannot read is renamed and recreated. One of a cluster (see
// Cluster) syncs everything and repairs nothing.
//
// It listens only on loopback, at unpublished ports. A front accepts connections from elsewhere,
// and bounds those that have not signed in.
package embedded

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"

	"payledger/domain/installation"
	"payledger/notifier/bus"
	"payledger/notifier/health"
)

// Server is the embedded NATS server with JetStream. Safe for concurrent use.
type Server struct {
	config   Config
	password string // of the ledger's own connection

	watchEvery time.Duration
	trouble    health.State
	repaired   *prometheus.CounterVec

	clients  *front      // of Listen; nil: none
	routes   *front      // of Cluster; nil: none
	starting atomic.Bool // mu is held for long

	mu      sync.Mutex
	current *natsserver.Server // nil until one has started
	storage storageWatch
	unread  bool // a stream could not be loaded, on a disk that takes no writes
	closed  bool
}

var (
	// ErrClosed: the embedded NATS server was shut down.
	ErrClosed = errors.New("the embedded NATS server was shut down")
	// ErrStarting: the embedded NATS server takes no connections yet.
	ErrStarting = errors.New("the embedded NATS server is reading its directory")
)

const (
	// maxConnections is more than all accounts may have, the ledger's own and those that
	// wait to sign in included: the front bounds these, and the server may see the end
	// of some later.
	maxConnections = 2*maxOutsideConnections + installation.MaxConsumers*maxConsumerConnections + 2*MaxWaiting
	// maxPending bounds the bytes that wait for one client that does not
	// read; beyond it the server drops the client.
	maxPending = 16 << 20
	// recoverAtOnce is how large a directory may be that Start waits for.
	recoverAtOnce = 64 << 20
)

// Start starts the server and returns when it takes connections. It fails when Listen cannot be
// listened on or the directory cannot be made. It does not wait for a large directory, nor for a
// disk that takes no writes: the connections of Connect connect by themselves when the server runs,
// and Run repairs what fails then.
func Start(c Config) (*Server, error) {
	s := &Server{config: c, watchEvery: cmp.Or(c.WatchEvery, time.Second), password: bus.NewPassword(), trouble: health.State{Log: c.Log, Part: "embedded NATS server"}}
	s.repaired = health.CounterVec(c.Metrics, "payledger_jetstream_repairs_total", "Repairs of the embedded JetStream in the running process, by what was recreated.", "kind",
		repairRestart, repairAside)
	health.UpGauge(c.Metrics, "nats_server", "the embedded NATS server works", s.Err)
	if c.Listen != "" {
		if err := c.Credentials.Validate(); err != nil {
			return nil, err
		}
	}
	if err := s.listen(); err != nil {
		return nil, err
	}
	s.mu.Lock() // until it has started
	if !largerThan(c.Dir, recoverAtOnce) {
		defer s.mu.Unlock()
		err := s.startAnew()
		if errors.As(err, new(*storageError)) { // Run tries again
			s.trouble.Set(err)
			err = nil
		}
		if err != nil {
			s.closeFronts()
			return nil, err
		}
		return s, nil
	}
	s.starting.Store(true)
	go func() { // Shutdown waits for it, with mu
		defer s.mu.Unlock()
		defer s.starting.Store(false)
		s.trouble.Set(s.startAnew())
	}()
	return s, nil
}

// listen takes the addresses at which others connect.
func (s *Server) listen() (err error) {
	if s.config.Listen != "" {
		if s.clients, err = newFront(s.config.Listen, false, "", s.config.Log); err != nil {
			return err
		}
	}
	if c := s.config.Cluster; c != nil {
		if s.routes, err = newFront(cmp.Or(c.Listen, c.Own), true, c.PeerProtocol, s.config.Log); err != nil {
			s.closeFronts()
		}
	}
	return err
}

func (s *Server) closeFronts() {
	s.clients.close()
	s.routes.close()
}

// largerThan stops once the size is exceeded.
func largerThan(dir string, size int64) bool {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // JetStream reports what it cannot read
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			size -= info.Size()
		}
		if size < 0 {
			return fs.SkipAll
		}
		return nil
	})
	return err == nil && size < 0
}

// startAnew starts a server, with an empty directory if the one there is
// cannot be used. s.mu is held.
func (s *Server) startAnew() error {
	if err := os.MkdirAll(s.config.Dir, 0o700); err != nil {
		return fmt.Errorf("making the directory of NATS: %w", err)
	}
	if s.config.Cluster != nil {
		return s.start()
	}
	err := s.start()
	if !errors.As(err, new(*storageError)) {
		return err
	}
	if unwritable := s.writable(); unwritable != nil {
		return errors.Join(err, unwritable) // what is there may be well
	}
	s.config.Log.Error().Err(err).Msg("the embedded NATS server cannot use its directory; it is quarantined and copied again from the log")
	if asideErr := s.moveAside(s.storeDir()); asideErr != nil {
		return errors.Join(err, asideErr)
	}
	return s.start()
}

// storageError: JetStream could not start from its directory.
type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }

func (e *storageError) Unwrap() error { return e.err }

// start starts a new server in the place of the current one, which has shut
// down. s.mu is held.
func (s *Server) start() error {
	o, err := s.options()
	if err != nil {
		return err
	}
	srv, err := natsserver.NewServer(o)
	if err != nil {
		return fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	log := newServerLog(s.config.Log)
	srv.SetLoggerV2(log, false, false, false)
	started := make(chan struct{})
	go func() {
		defer close(started)
		srv.Start()
	}()
	if err := awaitReady(srv, log); err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		<-started
		return err
	}
	<-started
	s.current = srv
	for _, f := range []*front{s.clients, s.routes} {
		if f != nil {
			f.server.Store(srv)
		}
	}
	if s.config.Cluster == nil {
		s.leaveUnloaded()
	}
	s.storage = storageWatch{}
	return s.check(nil)
}

func awaitReady(srv *natsserver.Server, log *serverLog) error {
	for deadline := time.Now().Add(bus.EmbeddedStart); ; {
		ready := srv.ReadyForConnections(50 * time.Millisecond)
		if err := log.failure(); err != nil {
			return err
		}
		if ready && srv.JetStreamEnabled() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the embedded NATS server was not ready within %v", bus.EmbeddedStart)
		}
	}
}

// Addr implements bus.Embedded: it is nil without Listen.
func (s *Server) Addr() net.Addr {
	if s.clients == nil {
		return nil
	}
	return s.clients.listener.Addr()
}

// InProcessConn opens a connection to the server that is running now.
func (s *Server) InProcessConn() (net.Conn, error) {
	if s.starting.Load() {
		return nil, ErrStarting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	if s.current == nil {
		return nil, ErrStarting
	}
	return s.current.InProcessConn()
}

// Connect connects the ledger to the server.
func (s *Server) Connect() (*bus.Conn, error) {
	return bus.ConnectEmbedded(s, bus.UserLedger, s.config.Log)
}

// Password implements bus.Embedded.
func (s *Server) Password() string { return s.password }

// Consumers implements bus.Embedded.
func (s *Server) Consumers() *bus.Consumers { return s.config.Consumers }

// shutdownTime is how long a node's server may take to stop: where a stream is catching up,
// nats-server waits without a bound for the node that it copies from.
const shutdownTime = 8 * time.Second

// Shutdown stops the server and returns when it has let go of its directory, on a node after
// shutdownTime at the latest: then the process has to end. Outside clients are notified first,
// and get about a second. The connections of this process should be closed before.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	defer s.closeFronts()
	s.clients.stop()
	if !s.end(s.config.Listen != "" || s.config.Cluster != nil) { // the other servers lead from then on
		s.config.Log.Warn().Msg("the embedded NATS server still waits for another node, and is left to end with the process")
	}
}

// end stops the current server, if there is one, and reports whether it has let go of its directory.
// s.mu is held.
func (s *Server) end(notify bool) bool {
	srv := s.current
	if srv == nil {
		return true
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if notify {
			srv.LameDuckShutdown()
		}
		srv.Shutdown()
		srv.WaitForShutdown()
	}()
	var late <-chan time.Time
	if s.config.Cluster != nil {
		late = time.After(shutdownTime)
	}
	select {
	case <-ended:
		return true
	case <-late:
		return false
	}
}
