package embedded

import (
	"crypto/tls"
	"fmt"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
)

// Config configures the embedded NATS server.
type Config struct {
	Dir         string         // its own directory; made when missing
	Listen      string         // HOST:PORT, port 0 for any; empty: only this process can connect
	TLS         *tls.Config    // of Listen; nil: plain text
	Credentials Credentials    // of those who connect to Listen
	Consumers   *bus.Consumers // others who connect to Listen; nil: none
	WatchEvery  time.Duration  // between checks whether it works; 0: a second
	Cluster     *Cluster       // nil: the server is alone
	Log         zerolog.Logger
	Metrics     prometheus.Registerer // nil: none
}

func (s *Server) options() (*natsserver.Options, error) {
	o := &natsserver.Options{
		ServerName: "payledger", DontListen: true, NoSigs: true,
		JetStream: true, StoreDir: s.config.Dir, DisableJetStreamBanner: true,
		JetStreamMaxStore: 1 << 60,
		// Only a cursor or two are kept in memory.
		JetStreamMaxMemory: 64 << 20,
		MaxConn:            maxConnections, MaxPending: maxPending, MaxClosedClients: 1, // nothing asks for more
		LameDuckDuration: time.Second, LameDuckGracePeriod: 250 * time.Millisecond,
	}
	if c := s.config.Cluster; c != nil {
		c.options(o, s.routes)
	}
	var outsiders *Credentials
	if s.config.Listen != "" {
		onLoopback(o)
		o.ProxyProtocol, o.ClientAdvertise = true, s.clients.listener.Addr().String()
		outsiders = &s.config.Credentials
		if s.config.TLS != nil {
			o.TLS, o.TLSConfig = true, s.config.TLS.Clone()
		}
	}
	if err := o.ProcessConfigString(accounts(s.password, outsiders, s.config.Consumers.All())); err != nil {
		return nil, fmt.Errorf("configuring the embedded NATS server: %w", err)
	}
	return o, nil
}

// onLoopback has the server listen on any free port of this machine. A reload keeps the port.
func onLoopback(o *natsserver.Options) {
	o.DontListen, o.Host, o.Port = false, "127.0.0.1", natsserver.RANDOM_PORT
}

// ReloadConsumers implements bus.Embedded: it has the running server take over the present consumers. Clients
// of a consumer that was removed are disconnected; other connections stay.
func (s *Server) ReloadConsumers() error {
	if s.starting.Load() {
		return ErrStarting
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.current == nil:
		return ErrStarting
	case s.config.Listen == "":
		return nil
	}
	// nats-server 2.15 subscribes the imports of an account that is new in a reload only at the next
	// one: without the second, its requests have no responders.
	for range 2 {
		o, err := s.options()
		if err != nil {
			return err
		}
		if err := s.current.ReloadOptions(o); err != nil {
			return fmt.Errorf("changing the consumers of the embedded NATS server: %w", err)
		}
	}
	return nil
}
