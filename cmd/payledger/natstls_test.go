package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/notifier/bus"
	"payledger/notifier/bus/embedded"
	"payledger/notifier/bustest"
)

// TestNATSOverTLS reads events as a subscriber that trusts the server's certificate.
// A client that does not trust it, or speaks no TLS, gets nothing.
func TestNATSOverTLS(t *testing.T) {
	t.Parallel()
	cert, key := bustest.Certificate(t, time.Now().Add(-time.Hour))
	t.Run("subscriber", func(t *testing.T) {
		t.Parallel()
		s := start(t, "demo", "--nats-listen", "127.0.0.1:0", "--nats-tls-cert", cert, "--nats-tls-key", key)
		id := s.paid(t)
		content, err := os.ReadFile(datadir.Dir(s.Data).Credentials())
		if err != nil {
			t.Fatal(err)
		}
		var c embedded.Credentials
		if err := json.Unmarshal(content, &c); err != nil {
			t.Fatal(err)
		}
		connect := func(more ...nats.Option) (*nats.Conn, error) {
			return nats.Connect("tls://"+s.NATSAddress, append([]nats.Option{
				nats.UserInfo(c.Subscriber.User, c.Subscriber.Password), nats.CustomInboxPrefix("_INBOX_subscriber"), nats.Timeout(patience),
			}, more...)...)
		}
		if _, err := connect(); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("without trust in the certificate: %v", err)
		}
		if _, err := connect(nats.RootCAs(cert), nats.Secure(&tls.Config{MaxVersion: tls.VersionTLS11})); err == nil {
			t.Error("TLS 1.1 is accepted")
		}
		nc, err := connect(nats.RootCAs(cert))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		var events jetstream.Consumer
		eventually(t, "the subscriber's consumer exists", func() bool {
			events, err = js.Consumer(t.Context(), bus.EventsStream, bus.SubscriberConsumer)
			return err == nil
		})
		msg, err := events.Next(jetstream.FetchMaxWait(patience))
		if err != nil || msg.Headers().Get("ce-subject") != "payment/"+id {
			t.Fatalf("%v, %v", msg, err)
		}

		plain, err := net.Dial("tcp", s.NATSAddress)
		if err != nil {
			t.Fatal(err)
		}
		defer plain.Close()
		fmt.Fprintf(plain, "CONNECT {\"user\":%q,\"pass\":%q}\r\nSUB payledger.v1.events.*.payment.> 1\r\nPING\r\n", c.Subscriber.User, c.Subscriber.Password)
		if err := plain.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(plain)
		for line := range strings.Lines(string(said)) { // its keys may hold any letters
			if strings.HasPrefix(line, "PONG") || strings.HasPrefix(line, "MSG ") {
				t.Errorf("without TLS: %s, %v", said, err)
			}
		}
	})
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		for _, args := range [][]string{
			{"--nats-listen", "0.0.0.0:0"},
			{"--nats-listen", "127.0.0.1:0", "--nats-tls-cert", cert},
			{"--nats-listen", "127.0.0.1:0", "--nats-tls-cert", cert, "--nats-tls-key", cert},
		} {
			if out, errs, code := command(append([]string{"demo", "--listen", "127.0.0.1:0"}, args...)...); code != cli.ExitUsage || !strings.Contains(errs, "--nats-tls-cert") {
				t.Errorf("%v: exit code %d, %s%s", args, code, out, errs)
			}
		}
	})
	t.Run("by the environment", func(t *testing.T) {
		t.Parallel()
		cmd := exec.Command("payledger", "demo", "--json", "--listen", "127.0.0.1:0")
		cmd.Env = append(os.Environ(), "PAYLEDGER_NATS_LISTEN=:0", "PAYLEDGER_NATS_PLAINTEXT=true", "TMPDIR="+t.TempDir())
		s, err := runServer(cmd)
		if err != nil {
			t.Fatal(err)
		}
		defer s.kill()
		if s.NATSAddress == "" {
			t.Error("nothing listens")
		}
	})
}
