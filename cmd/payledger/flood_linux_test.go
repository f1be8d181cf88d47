package main

import (
	"context"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"payledger/cmd/payledger/datadir"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
)

// dialFrom is a dialer of one of this machine's own addresses.
func dialFrom(ip string) *net.Dialer {
	return &net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
}

// renewAfter leaves the tests, which share the processors with the server, time to run.
const renewAfter = 50 * time.Millisecond

// flood keeps connections from 127.0.0.2 open until it is stopped or the test ends, and
// renews each as the server cuts it. Each sends the bytes.
func flood(t *testing.T, addr string, connections int, sends string) (end func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	var begun atomic.Int64
	for range connections {
		all.Go(func() {
			for ctx.Err() == nil {
				c, err := dialFrom("127.0.0.2").DialContext(ctx, "tcp", addr)
				begun.Add(1)
				if err == nil {
					cut := context.AfterFunc(ctx, func() { c.Close() })
					_, _ = io.WriteString(c, sends)
					_, _ = io.Copy(io.Discard, c)
					cut()
					c.Close()
				}
				<-time.After(renewAfter)
			}
		})
	}
	end = sync.OnceFunc(func() {
		stop()
		all.Wait()
		t.Logf("%d connections came", begun.Load())
	})
	t.Cleanup(end)
	eventually(t, "all connections have come", func() bool { return begun.Load() >= int64(connections) })
	return end
}

// outsiders are the credentials of the server's subscriber and connector.
func (s *server) outsiders(t *testing.T) (c embedded.Credentials) {
	t.Helper()
	content, err := os.ReadFile(datadir.Dir(s.Data).Credentials())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestNoFloodKeepsNATSClientsOut: connections of one address that say nothing, half of
// what they should, or the wrong password do not keep those of another address from
// signing in at once.
func TestNoFloodKeepsNATSClientsOut(t *testing.T) {
	if testing.Short() {
		t.Skip("with the race detector everything takes too long to be measured")
	}
	cert, key := bustest.Certificate(t, time.Now().Add(-time.Hour))
	for name, c := range map[string]struct {
		connections int
		sends       string
		flags       []string
	}{
		"silent":          {700, "", nil},
		"half a CONNECT":  {700, `CONNECT {"user":"connector",`, nil},
		"wrong passwords": {200, "CONNECT {\"user\":\"connector\",\"pass\":\"x\"}\r\nPING\r\n", nil},
		"silent, TLS":     {700, "", []string{"--nats-tls-cert", cert, "--nats-tls-key", key}},
		"garbage, TLS":    {200, "\x16\x03\x01\x02\x00\x01", []string{"--nats-tls-cert", cert, "--nats-tls-key", key}},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "silent" {
				inLong(t)
			}
			s := start(t, append([]string{"demo", "--nats-listen", "127.0.0.1:0"}, c.flags...)...)
			who := s.outsiders(t).Connector
			flood(t, s.NATSAddress, c.connections, c.sends)
			options := []nats.Option{nats.UserInfo(who.User, who.Password), nats.Timeout(patience)}
			if c.flags != nil {
				options = append(options, nats.RootCAs(cert))
			}
			inTime(t, 30, func() error {
				nc, err := nats.Connect("nats://"+s.NATSAddress, options...)
				if err == nil {
					nc.Close()
				}
				return err
			})
		})
	}
}

// inTime does something often, which must take less than a second. Of the times the
// middle one counts, since the machine may be busy with other tests.
func inTime(t *testing.T, times int, do func() error) {
	t.Helper()
	var took []time.Duration
	for i := range times {
		began := time.Now()
		if err := do(); err != nil {
			t.Errorf("try %d: %v", i+1, err)
		}
		took = append(took, time.Since(began))
		<-time.After(renewAfter / 2) // so that the flood goes on meanwhile
	}
	slices.Sort(took)
	middle, longest := took[times/2], took[times-1]
	if middle > time.Second {
		t.Errorf("it took %v, up to %v", middle, longest)
	}
	t.Logf("it took %v, up to %v", middle, longest)
}

// TestSilentConnectionsAreBounded: connections of clients that have signed in do not
// count with those that say nothing, and stay.
func TestSilentConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, "demo", "--nats-listen", "127.0.0.1:0")
	who := s.outsiders(t).Connector
	for i := range 100 {
		nc, err := nats.Connect("nats://"+s.NATSAddress, nats.UserInfo(who.User, who.Password), nats.Timeout(patience),
			nats.SetCustomDialer(dialFrom("127.0.0.2")), nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { t.Error("a client that has signed in is cut") }))
		if err != nil {
			t.Fatalf("login %d: %v", i+1, err)
		}
		t.Cleanup(func() {
			nc.SetClosedHandler(nil)
			nc.Close()
		})
	}
	boundsSilent(t, s.NATSAddress)
}

// boundsSilent counts the connections that a server keeps while their clients say nothing,
// of one address and of several, and for how long.
func boundsSilent(t *testing.T, addr string) {
	t.Helper()
	var dialled, ended atomic.Int64
	var all sync.WaitGroup
	defer all.Wait()
	began := time.Now()
	silent := func(ip string, want int64) {
		t.Helper()
		for range 100 {
			dialled.Add(1)
			all.Go(func() {
				defer ended.Add(1)
				c, err := dialFrom(ip).DialContext(t.Context(), "tcp", addr)
				if err != nil {
					return // it was cut at once
				}
				defer c.Close()
				_, _ = io.Copy(io.Discard, c)
			})
		}
		eventually(t, "connections are cut", func() bool { return dialled.Load()-ended.Load() <= want })
		if open := dialled.Load() - ended.Load(); open != want && time.Since(began) < embedded.Patience {
			t.Errorf("%d connections are open, want %d", open, want)
		}
	}
	silent("127.0.0.2", embedded.PerAddress)
	silent("127.0.0.3", embedded.MaxWaiting)
	silent("127.0.0.4", embedded.MaxWaiting)
	eventually(t, "all silent connections are cut", func() bool { return dialled.Load() == ended.Load() })
	if took := time.Since(began); took < embedded.Patience || took > embedded.Patience+5*time.Second {
		t.Errorf("the last one was cut after %v", took)
	}
}
