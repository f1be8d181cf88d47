package bus

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/notifier/health"
)

// ServerConfig configures the embedded NATS server.
type ServerConfig struct {
	Dir         string        // its own directory; made when missing
	Listen      string        // HOST:PORT, port 0 for any; empty: nobody but this process can connect
	TLS         *tls.Config   // of Listen; nil: plain text
	Credentials Credentials   // of those who connect to Listen
	Consumers   Consumers     // others who connect to Listen; zero: none
	WatchEvery  time.Duration // between looks at whether it works; 0: a second
	MaxStore    int64         // bytes JetStream may keep on disk; 0: as much as there is
	Log         zerolog.Logger
	Metrics     prometheus.Registerer // nil: none
}

// Server is the embedded NATS server with JetStream. What it keeps for the
// ledger is derived from the log, so it does not sync to disk by itself, and
// a directory it cannot read is put aside. Safe for concurrent use.
type Server struct {
	config   ServerConfig
	password string // of the ledger's own connection

	watchEvery time.Duration
	trouble    health.State
	repaired   *prometheus.CounterVec

	addr     atomic.Pointer[net.TCPAddr] // once it is known; a restart keeps it
	starting atomic.Bool                 // mu is held for long

	mu      sync.Mutex
	current *natsserver.Server // nil until one has started
	storage *storageWatch
	closed  bool
}

var (
	// ErrServerClosed: the embedded NATS server was shut down.
	ErrServerClosed = errors.New("the embedded NATS server was shut down")
	// ErrServerStarting: the embedded NATS server takes no connections yet.
	ErrServerStarting = errors.New("the embedded NATS server is reading its directory")
)

const (
	// startWait bounds the recovery of a large directory. After a crash
	// JetStream reads all of it: a million payments take some 7 s.
	startWait = time.Hour
	// maxConnections bounds the sockets of Listen, those not yet signed in
	// included, so that they cannot take the files of JetStream. The server
	// closes one that does not sign in within two seconds, or three with TLS.
	maxConnections = 2*maxOutsideConnections + MaxConsumers*maxConsumerConnections + 128
	// maxPending bounds the bytes that wait for one client that does not
	// read; beyond it the server drops the client.
	maxPending = 16 << 20
	// recoverAtOnce is how large a directory may be that StartServer waits for.
	recoverAtOnce = 64 << 20
)

// StartServer starts the server and returns when it takes connections. It
// fails when Listen cannot be listened on or the directory cannot be made. It
// does not wait for a large directory, nor for a disk that takes no writes:
// what Connect has made connects by itself when the server runs, and Run mends
// what fails then.
func StartServer(c ServerConfig) (*Server, error) {
	s := &Server{config: c, watchEvery: cmp.Or(c.WatchEvery, time.Second), trouble: health.State{Log: c.Log, Part: "embedded NATS server"}}
	s.repaired = health.CounterVec(c.Metrics, "payledger_jetstream_repairs_total", "Repairs of the embedded JetStream in the running process, by what was made anew.", "kind",
		string(RepairRestart), string(repairStream), string(RepairEmpty), string(RepairStore))
	health.UpGauge(c.Metrics, "nats_server", "the embedded NATS server works", s.Err)
	var err error
	if s.password, err = newPassword(rand.Reader); err != nil {
		return nil, err
	}
	if c.Listen != "" {
		if err := c.Credentials.Validate(); err != nil {
			return nil, err
		}
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
			return nil, err
		}
		return s, nil
	}
	if addr, err := net.ResolveTCPAddr("tcp", c.Listen); err == nil && c.Listen != "" && addr.Port != 0 {
		s.addr.Store(addr)
	}
	s.starting.Store(true)
	go func() { // Shutdown waits for it, with mu
		defer s.mu.Unlock()
		defer s.starting.Store(false)
		s.trouble.Set(s.startAnew())
	}()
	return s, nil
}

// largerThan looks no further than it has to.
func largerThan(dir string, size int64) bool {
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is told when it is used
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
	streams, err := dropMisleadingIndexes(s.config.Dir)
	if len(streams) > 0 {
		s.config.Log.Error().Err(err).Strs("streams", streams).Msg("JetStream streams are damaged: a sequence is impossible; they are read anew without their index")
	}
	err = s.start()
	if !errors.As(err, new(*storageError)) {
		return err
	}
	if unwritable := s.writable(); unwritable != nil {
		return errors.Join(err, unwritable) // what is there may be well
	}
	s.config.Log.Error().Err(err).Msg("the embedded NATS server cannot use its directory; it is put aside and copied anew from the log")
	s.repaired.WithLabelValues(string(RepairStore)).Inc()
	if asideErr := s.putAside(); asideErr != nil {
		return errors.Join(err, asideErr)
	}
	return s.start()
}

// storageError: JetStream could not start from its directory.
type storageError struct{ err error }

func (e *storageError) Error() string { return e.err.Error() }

func (e *storageError) Unwrap() error { return e.err }

func (s *Server) options() (*natsserver.Options, error) {
	o := &natsserver.Options{
		ServerName: "payledger", DontListen: true, NoSigs: true,
		JetStream: true, StoreDir: s.config.Dir, DisableJetStreamBanner: true,
		JetStreamMaxStore: 1 << 60,
		// Only a cursor or two are kept in memory.
		JetStreamMaxMemory: 64 << 20,
		MaxConn:            maxConnections, MaxPending: maxPending,
		LameDuckDuration: time.Second, LameDuckGracePeriod: 250 * time.Millisecond,
	}
	if s.config.MaxStore > 0 {
		o.JetStreamMaxStore = s.config.MaxStore
	}
	var outsiders *Credentials
	if s.config.Listen != "" {
		listen := s.config.Listen
		if addr := s.addr.Load(); addr != nil {
			listen = addr.String()
		}
		host, port, err := net.SplitHostPort(listen)
		if err != nil {
			return nil, fmt.Errorf("the address for NATS clients: %w: want HOST:PORT", err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("the address for NATS clients: port %q: want a number up to 65535", port)
		}
		o.DontListen, o.Host, o.Port = false, host, int(n)
		if o.Port == 0 {
			o.Port = natsserver.RANDOM_PORT
		}
		outsiders = &s.config.Credentials
		if s.config.TLS != nil {
			o.TLS, o.TLSConfig = true, s.config.TLS.Clone()
		}
	}
	if err := o.ProcessConfigString(accounts(s.password, outsiders, s.consumers())); err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	return o, nil
}

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
	log := &serverLog{log: s.config.Log}
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
	if !o.DontListen {
		if addr, ok := srv.Addr().(*net.TCPAddr); ok {
			s.addr.Store(addr)
		}
	}
	s.stripLost()
	s.storage = newStorageWatch(s.config.Dir)
	s.storage.look()
	return nil
}

func awaitReady(srv *natsserver.Server, log *serverLog) error {
	for deadline := time.Now().Add(startWait); ; {
		ready := srv.ReadyForConnections(50 * time.Millisecond)
		if err := log.failure(); err != nil {
			return err
		}
		if ready && srv.JetStreamEnabled() {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the embedded NATS server was not ready within %v", startWait)
		}
	}
}

// Addr is the address others connect to, nil without Listen.
func (s *Server) Addr() net.Addr {
	if addr := s.addr.Load(); addr != nil {
		return addr
	}
	return nil
}

// InProcessConn opens a connection to the server that is running now.
func (s *Server) InProcessConn() (net.Conn, error) {
	if s.starting.Load() {
		return nil, ErrServerStarting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrServerClosed
	}
	if s.current == nil {
		return nil, ErrServerStarting
	}
	return s.current.InProcessConn()
}

// Shutdown stops the server and returns when it has let go of its directory.
// Outside clients are told first, and get about a second. The connections of
// this process should be closed before.
func (s *Server) Shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	if s.current == nil {
		return
	}
	if s.config.Listen != "" {
		s.current.LameDuckShutdown()
	}
	s.current.Shutdown()
	s.current.WaitForShutdown()
}
