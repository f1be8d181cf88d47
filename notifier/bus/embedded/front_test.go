package embedded

import (
	"net"
	"strconv"
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

// TestServerKnowsItsClientsAddresses: the server lists a client under the address from
// which it connects, and no client that has signed in waits.
func TestServerKnowsItsClientsAddresses(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0", ":0"} {
		s := started(t, Config{Listen: listen, Credentials: credentials})
		_, port, err := net.SplitHostPort(s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		hosts := []string{"127.0.0.1", "::1"}
		if listen != ":0" {
			hosts = []string{s.Addr().(*net.TCPAddr).IP.String()}
		}
		for _, host := range hosts {
			nc, err := nats.Connect("nats://"+net.JoinHostPort(host, port),
				nats.UserInfo(credentials.Subscriber.User, credentials.Subscriber.Password), nats.Timeout(healthtest.Patience))
			if err != nil {
				t.Fatalf("%s at %s: %v", listen, host, err)
			}
			t.Cleanup(nc.Close)
			known, err := s.current.Connz(&natsserver.ConnzOptions{Username: true, Account: readerPrefix + bus.SubscriberConsumer, Sort: natsserver.ByCid})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(known.Conns); n == 0 || known.Conns[n-1].IP != host || net.JoinHostPort(host, strconv.Itoa(known.Conns[n-1].Port)) != nc.LocalAddr() {
				t.Errorf("%s: %s is known as %+v", listen, nc.LocalAddr(), known.Conns)
			}
		}
		healthtest.Eventually(t, "none waits", func() bool { return s.clients.listener.waits() == 0 })
	}
}
