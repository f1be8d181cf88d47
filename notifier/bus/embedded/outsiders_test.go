package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

// outside is a listening server with the ledger's own connection.
func outside(t *testing.T) (*Server, *bus.Conn, Credentials) {
	t.Helper()
	credentials := NewCredentials()
	s := started(t, Config{Listen: "127.0.0.1:0", Credentials: credentials})
	return s, connected(t, s), credentials
}

func TestOneAccountCannotTakeAllConnections(t *testing.T) {
	t.Parallel()
	s, _, credentials := outside(t)
	dial := func(c Credential) (nc *nats.Conn, err error) {
		healthtest.Eventually(t, "a client signs in in time", func() bool {
			nc, err = nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(c.User, c.Password), nats.NoReconnect(), nats.Timeout(healthtest.Patience))
			return !errors.Is(err, io.EOF) // on a busy machine the server has closed it as one that is silent
		})
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return nc, err
	}
	for i := range maxOutsideConnections {
		if _, err := dial(credentials.Subscriber); err != nil {
			t.Fatalf("connection %d: %v", i+1, err)
		}
	}
	if _, err := dial(credentials.Subscriber); !errors.Is(err, nats.ErrMaxAccountConnectionsExceeded) {
		t.Errorf("one more: %v, want %v", err, nats.ErrMaxAccountConnectionsExceeded)
	}
	if _, err := dial(credentials.Connector); err != nil {
		t.Errorf("the other account: %v", err)
	}
	connected(t, s)
}

// Sockets that never sign in are closed again, and the ledger's own
// connections go on meanwhile.
func TestSilentSocketsAreClosed(t *testing.T) {
	t.Parallel()
	s, ledger, credentials := outside(t)
	for range maxConnections + 20 {
		if c, err := net.Dial("tcp", s.Addr().String()); err == nil {
			t.Cleanup(func() { c.Close() })
		}
	}
	if err := ledger.NATS().FlushTimeout(healthtest.Patience); err != nil {
		t.Errorf("the ledger's connection: %v", err)
	}
	healthtest.Eventually(t, "a client gets in", func() bool {
		nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(credentials.Connector.User, credentials.Connector.Password),
			nats.NoReconnect(), nats.Timeout(healthtest.Patience))
		if err != nil {
			return false
		}
		nc.Close()
		return true
	})
}

// TestEndWithNewConnections: the end does not wait for connections that the NATS server has just
// accepted, which it forgets once it closes the others.
func TestEndWithNewConnections(t *testing.T) {
	t.Parallel()
	for range 3 { // it does not forget some each time
		t.Run("", func(t *testing.T) {
			t.Parallel()
			s, _, _ := outside(t)
			for range PerAddress {
				c, err := net.Dial("tcp", s.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Close() })
			}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				s.Shutdown()
			}()
			select {
			case <-ended:
			case <-time.After(time.Minute): // the garbage collector closes what is forgotten after two
				t.Fatal("the server does not end")
			}
		})
	}
}

// TestWrongPasswordsDoNotFillTheLog: what clients get wrong again and again is logged only
// in part, and errors of the server itself are not left out for it.
func TestWrongPasswordsDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	var log healthtest.Buffer
	s, err := Start(Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Credentials: credentials, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	for range 4 * connErrors {
		if nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo("connector", "wrong")); err == nil {
			nc.Close()
			t.Fatal("a wrong password is accepted")
		}
	}
	if n := strings.Count(log.String(), "authentication error"); n == 0 || n > 2*connErrors {
		t.Errorf("%d records, want some %d\n%s", n, connErrors, &log)
	}
	var own healthtest.Buffer
	l := newServerLog(zerolog.New(&own))
	for range 4 * connErrors {
		l.Errorf("JetStream failed: %v", errors.ErrUnsupported)
	}
	if n := strings.Count(own.String(), "JetStream failed"); n != 4*connErrors {
		t.Errorf("%d errors of the server are logged, want %d", n, 4*connErrors)
	}
}

func TestClientThatNeverReadsIsDropped(t *testing.T) {
	t.Parallel()
	s, ledger, credentials := outside(t)
	dialer := net.Dialer{Timeout: healthtest.Patience}
	c, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "CONNECT {\"user\":%q,\"pass\":%q,\"verbose\":false}\r\nSUB %s 1\r\nPING\r\n",
		credentials.Subscriber.User, credentials.Subscriber.Password, bus.CheckpointsSubject)
	for r := bufio.NewReader(c); ; { // until the server has taken all of it
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == "PONG\r\n" {
			break
		}
	}

	body := make([]byte, 512<<10)
	for range 4 * maxPending / len(body) {
		if err := ledger.NATS().Publish(bus.CheckpointsSubject, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := ledger.NATS().FlushTimeout(healthtest.Patience); err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "the client is dropped", func() bool { return s.current.NumSlowConsumers() > 0 })
	if err := c.SetReadDeadline(time.Now().Add(healthtest.Patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, c); n > 3*maxPending {
		t.Errorf("read %d bytes that were kept for it (%v), want some %d", n, err, maxPending)
	}
}
