package embedded

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/health/healthtest"
)

func TestServerWithoutAddressHasNoListener(t *testing.T) {
	t.Parallel()
	s := started(t, Config{})
	if s.Addr() != nil {
		t.Fatalf("listens on %v", s.Addr())
	}
}

func TestNobodyConnectsWithoutCredentials(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	s := started(t, Config{Listen: "127.0.0.1:0", Credentials: credentials})
	for name, o := range map[string]nats.Option{
		"anonymous":           nats.Name("nobody"),
		"wrong password":      nats.UserInfo("subscriber", "wrong"),
		"empty password":      nats.UserInfo("connector", ""),
		"another's":           nats.UserInfo("connector", credentials.Subscriber.Password),
		"the ledger's name":   nats.UserInfo(bus.UserLedger, ""),
		"the system's name":   nats.UserInfo("sys", "sys"),
		"password as a token": nats.Token(credentials.Subscriber.Password),
	} {
		nc, err := nats.Connect("nats://"+s.Addr().String(), o, nats.Timeout(healthtest.Patience))
		if err == nil {
			nc.Close()
			t.Errorf("%s: connected", name)
		} else if !errors.Is(err, nats.ErrAuthorization) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestListenAddressErrors(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	taken, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	for _, c := range []Config{
		{Listen: taken.Addr().String(), Credentials: credentials},
		{Listen: "127.0.0.1", Credentials: credentials},
		{Listen: "127.0.0.1:http", Credentials: credentials},
		{Listen: "127.0.0.1:0"},
		{Listen: "127.0.0.1:0", Credentials: Credentials{credentials.Connector, credentials.Subscriber}},
	} {
		c.Dir, c.Log = t.TempDir(), healthtest.Log(t)
		s, err := Start(c)
		if err == nil {
			s.Shutdown()
			t.Errorf("%q: started", c.Listen)
		}
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	one := NewCredentials()
	two := NewCredentials()
	seen := map[string]bool{}
	for _, c := range []Credential{one.Subscriber, one.Connector, two.Subscriber, two.Connector} {
		if len(c.Password) < 43 || seen[c.Password] {
			t.Errorf("%q", c.Password)
		}
		seen[c.Password] = true
	}
	if err := one.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Credentials){
		"user":      func(c *Credentials) { c.Subscriber.User = "ledger" },
		"empty":     func(c *Credentials) { c.Connector.Password = "" },
		"short":     func(c *Credentials) { c.Connector.Password = c.Connector.Password[:20] },
		"injection": func(c *Credentials) { c.Subscriber.Password = `x"}]} SYS: {users: [{user: "a", password: "b` },
	} {
		c := one
		spoil(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestListeningServerKeepsItsAddressOverARestart(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	s := started(t, Config{Listen: "127.0.0.1:0", Credentials: credentials})
	healthtest.Run(t, s.Run)
	c := connected(t, s)
	outside := outsider(t, s, credentials.Subscriber)
	was := s.Addr().String()
	s.mu.Lock()
	first := s.current
	s.mu.Unlock()
	first.Shutdown() // as if it had failed by itself
	healthtest.Eventually(t, "another server runs", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.current != first && s.current.Running()
	})
	if now := s.Addr().String(); now != was {
		t.Errorf("at %s, was at %s", now, was)
	}
	healthtest.Eventually(t, "both clients are back", func() bool { return c.Err() == nil && outside.Status() == nats.CONNECTED })
}

func TestShutdownLetsGo(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	s := started(t, Config{Listen: "127.0.0.1:0", Credentials: credentials})
	outside := outsider(t, s, credentials.Subscriber)
	c := connected(t, s)
	c.Close()
	began := time.Now()
	s.Shutdown()
	s.Shutdown()
	if took := time.Since(began); took > 2*time.Minute {
		t.Errorf("took %v", took)
	}
	if outside.IsConnected() {
		healthtest.Eventually(t, "the outside client is cut off", func() bool { return !outside.IsConnected() })
	}
	if _, err := s.InProcessConn(); !errors.Is(err, ErrClosed) {
		t.Errorf("%v", err)
	}
	if err := s.Repair(""); !errors.Is(err, ErrClosed) || !errors.Is(s.fault(), ErrClosed) {
		t.Error("a server that was shut down comes back")
	}
}

func TestServerLogNamesNoPassword(t *testing.T) {
	t.Parallel()
	credentials := NewCredentials()
	var log healthtest.Buffer
	s, err := Start(Config{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Credentials: credentials, Log: zerolog.New(&log),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo("subscriber", "wrong-secret")); err == nil {
		t.Error("connected")
	}
	password := s.password
	s.Shutdown()
	for _, secret := range []string{credentials.Subscriber.Password, credentials.Connector.Password, password, "wrong-secret", "Plaintext"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log says %q", secret)
		}
	}
	if log.String() == "" {
		t.Error("the log is empty")
	}
}

// TestLargeDirectoryDoesNotHoldUp: the start does not wait until a large
// directory has been read; what connects meanwhile waits, and so does the end.
func TestLargeDirectoryDoesNotHoldUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := started(t, Config{Dir: dir})
	if s.starting.Load() || largerThan(dir, recoverAtOnce) {
		t.Fatal("a new directory counts as large")
	}
	s.Shutdown()

	pad := filepath.Join(dir, "pad")
	if err := os.WriteFile(pad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(pad, recoverAtOnce+1); err != nil {
		t.Fatal(err)
	}
	credentials := NewCredentials()
	free := healthtest.FreeAddress(t)
	s, err := Start(Config{Dir: dir, Listen: free, Credentials: credentials, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	if got := s.Addr(); got == nil || got.String() != free {
		t.Errorf("the address is %v, want %s", got, free)
	}
	healthtest.Run(t, s.Run)
	c := connected(t, s)
	healthtest.Eventually(t, "JetStream answers", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.JetStream().AccountInfo(ctx)
		return err == nil
	})

	// A server that cannot start logs it, and can be shut down.
	never, err := Start(Config{Dir: pad, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	never.Shutdown()
	if _, err := never.InProcessConn(); err == nil {
		t.Error("a file serves as a directory")
	}
}

// TestOnlyTheNewestIsKeptAside: damage that comes again does not fill the disk.
func TestOnlyTheNewestIsKeptAside(t *testing.T) {
	t.Parallel()
	s := started(t, Config{})
	for range keptAside + 2 {
		if err := bus.MakeStreams(t.Context(), connected(t, s), domain.ID{1}); err != nil {
			t.Fatal(err)
		}
		if err := s.Repair(bus.SignalsStream); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := filepath.Glob(filepath.Join(s.config.Dir, "*"+Aside+"*")); err != nil || len(all) != keptAside {
		t.Errorf("%q, %v", all, err)
	}
}

// TestDirectoryDeletedBeforeTheFirstLook: the directory of the JetStream streams is
// missed though no look has seen it. A stream may be about to be remade at one look.
func TestDirectoryDeletedBeforeTheFirstLook(t *testing.T) {
	t.Parallel()
	s := started(t, Config{})
	if err := bus.MakeStreams(t.Context(), connected(t, s), domain.ID{1}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(s.streamDir()); err != nil {
		t.Fatal(err)
	}
	if err := s.fault(); err != nil {
		t.Errorf("the first look: %v", err)
	}
	if err := s.fault(); err == nil || !strings.Contains(err.Error(), "was deleted") {
		t.Errorf("the second look: %v", err)
	}
}

// TestDeletedStreamIsNoFault: one that was deleted by a request has no directory to
// miss.
func TestDeletedStreamIsNoFault(t *testing.T) {
	t.Parallel()
	s := started(t, Config{})
	c := connected(t, s)
	if err := bus.MakeStreams(t.Context(), c, domain.ID{1}); err != nil {
		t.Fatal(err)
	}
	if err := s.fault(); err != nil { // it has seen the directory
		t.Error(err)
	}
	if err := c.JetStream().DeleteStream(t.Context(), bus.SignalsStream); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.fault(); err != nil {
			t.Error(err)
		}
	}
}

// started is a server whose state is looked at often.
func started(t *testing.T, c Config) *Server {
	t.Helper()
	if c.Dir == "" {
		c.Dir = t.TempDir()
	}
	c.Log, c.WatchEvery = healthtest.Log(t), 50*time.Millisecond
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func connected(t *testing.T, s *Server) *bus.Conn {
	t.Helper()
	c, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// outsider is a client outside this process.
func outsider(t *testing.T, s *Server, c Credential) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+s.Addr().String(), nats.UserInfo(c.User, c.Password), nats.Timeout(healthtest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// TestNothingIsRepairedWithoutADisk: no repair could help then.
func TestNothingIsRepairedWithoutADisk(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "nats")
	s := started(t, Config{Dir: dir})
	running := s.current
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no directory can be made there
		t.Fatal(err)
	}
	if err := s.Repair(bus.SignalsStream); err == nil || !strings.Contains(err.Error(), "the server continues by itself") || s.current != running {
		t.Errorf("%v", err)
	}
}
