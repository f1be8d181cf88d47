package bustest

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"payledger/notifier/health/healthtest"
)

// Servers are NATS servers with JetStream in this process, as an operator has them.
type Servers struct {
	URL string // of all, separated by commas

	options []*natsserver.Options
	running []*natsserver.Server // nil: it is stopped
}

// StartServers starts servers, which form a cluster if they are more than one. The last
// ones, as many as lazy, do not sync every write. config is more of their configuration,
// in the form of a file. In it 0.0.0.0:6222 stands for where a server takes its routes, and
// 10.0.0.1:6222 and so on for where it finds those of the first server and the next ones.
func StartServers(t *testing.T, count, lazy int, config string) *Servers {
	t.Helper()
	s := &Servers{running: make([]*natsserver.Server, count)}
	var routes []*url.URL
	var addresses []string
	for i := range count {
		routes = append(routes, &url.URL{Scheme: "nats", Host: healthtest.FreeAddress(t)})
		addresses = append(addresses, fmt.Sprintf("10.0.0.%d:6222", i+1), routes[i].Host)
	}
	for i := range count {
		o := &natsserver.Options{
			ServerName: fmt.Sprintf("n%d", i+1), Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: t.TempDir(), SyncAlways: i < count-lazy,
		}
		if count > 1 {
			port, err := strconv.Atoi(routes[i].Port())
			if err != nil {
				t.Fatal(err)
			}
			o.Routes, o.Cluster = routes, natsserver.ClusterOpts{Name: "shop", Host: "127.0.0.1", Port: port}
		}
		own := strings.NewReplacer(append(addresses, "0.0.0.0:6222", routes[i].Host)...).Replace(config)
		if err := o.ProcessConfigString(own); err != nil {
			t.Fatal(err)
		}
		s.options = append(s.options, o)
	}
	t.Cleanup(func() {
		for i := range count {
			s.Stop(i)
		}
	})
	for i := range count {
		s.Start(t, i)
	}
	var all []string
	for i, o := range s.options {
		addr, ok := s.running[i].Addr().(*net.TCPAddr)
		if !ok || !s.running[i].ReadyForConnections(healthtest.Patience) {
			t.Fatal("a server does not start")
		}
		o.Port = addr.Port // it keeps it
		all = append(all, s.running[i].ClientURL())
	}
	s.URL = strings.Join(all, ",")
	if count > 1 { // without a leader JetStream answers nothing, and whoever asked waits for his time
		healthtest.Eventually(t, "JetStream has a leader", func() bool {
			return slices.ContainsFunc(s.running, (*natsserver.Server).JetStreamIsLeader)
		})
	}
	return s
}

// Start starts a server.
func (s *Servers) Start(t *testing.T, i int) {
	t.Helper()
	server, err := natsserver.NewServer(s.options[i])
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	s.running[i] = server
}

// Stop stops a server, if it runs, without letting its clients or the other servers know
// before.
func (s *Servers) Stop(i int) {
	if s.running[i] != nil {
		s.running[i].Shutdown()
		s.running[i].WaitForShutdown()
		s.running[i] = nil
	}
}

// Unsync has a server that is stopped not sync every write any more once it is started.
func (s *Servers) Unsync(i int) { s.options[i].SyncAlways = false }

// Leads is the server that leads a JetStream stream of an account; -1: none does.
func (s *Servers) Leads(account, stream string) int {
	for i, server := range s.running {
		if server != nil && server.JetStreamIsStreamLeader(account, stream) {
			return i
		}
	}
	return -1
}
