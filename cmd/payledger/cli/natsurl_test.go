package cli

import (
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

func file(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestFlagsThatCannotBe(t *testing.T) {
	t.Parallel()
	const at = "nats://127.0.0.1:4222"
	for want, flags := range map[string]NATSURLFlags{
		"--nats-credentials, .* are for --nats-url: give it too":   {NATSCredentials: file(t, "ledger:secret")},
		"--nats-credentials: open .*: no such file":                {NATSURL: at, NATSCredentials: "missing"},
		"--nats-credentials .*: it has neither the credentials":    {NATSURL: at, NATSCredentials: file(t, "secret\n")},
		"--nats-credentials: --nats-url has a user too":            {NATSURL: "a:4222,ledger:secret@b:4222", NATSCredentials: file(t, "ledger:secret")},
		"--nats-client-cert and --nats-client-key go together":     {NATSURL: at, NATSClientCert: "cert.pem"},
		"--nats-ca: nats: failed to parse root certificate":        {NATSURL: at, NATSCA: file(t, "secret")},
		"--nats-client-cert: nats: error loading client certifica": {NATSURL: at, NATSClientCert: file(t, "secret"), NATSClientKey: file(t, "secret")},
	} {
		_, err := flags.External(zerolog.Nop())
		var e *ExitError
		if !errors.As(err, &e) || e.Code != ExitUsage || !regexp.MustCompile(want).MatchString(err.Error()) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if e, err := (NATSURLFlags{}).External(zerolog.Nop()); err != nil || e.URL != "" {
		t.Errorf("no flags: %+v %v", e, err)
	}
}

// TestConnectsWithFiles connects to a server that wants TLS, a client's certificate and
// a password. The file with the password is read again for each connection.
func TestConnectsWithFiles(t *testing.T) {
	t.Parallel()
	cert, key := bustest.Certificate(t, time.Now().Add(-time.Hour))
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, NoSigs: true, NoLog: true, Username: "ledger", Password: "se:cret",
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert},
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	t.Cleanup(func() {
		server.Shutdown()
		server.WaitForShutdown()
	})
	if !server.ReadyForConnections(healthtest.Patience) {
		t.Fatal("the server does not start")
	}
	secret := file(t, "ledger:wrong\n")
	flags := NATSURLFlags{NATSURL: server.ClientURL(), NATSCredentials: secret, NATSCA: cert, NATSClientCert: cert, NATSClientKey: key}
	e, err := flags.External(healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := bus.Connect(e, healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	healthtest.Eventually(t, "a wrong password is the reason", func() bool {
		err := c.Err()
		return err != nil && strings.Contains(strings.ToLower(err.Error()), "authorization")
	})
	if err := os.WriteFile(secret, []byte("ledger:se:cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	healthtest.Eventually(t, "it connects", func() bool { return c.Err() == nil })
}
