package notifier

import (
	"bytes"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	one, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
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
	if _, err := NewCredentials(bytes.NewReader(make([]byte, 40))); err == nil {
		t.Error("made of too little entropy")
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

// TestDamagedDirectoryIsPutAside: what NATS cannot read is kept, and the log
// is copied anew.
func TestDamagedDirectoryIsPutAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A file where JetStream wants its directory.
	if err := os.WriteFile(filepath.Join(dir, natsserver.JetStreamStoreDir), []byte("what is this"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := StartServer(ServerConfig{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	aside, err := filepath.Glob(filepath.Join(dir, "*-damaged-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("%v, %v", aside, err)
	}
	b := newBook(t)
	b.routed(t)
	c := connectTo(t, s)
	run(t, newRelay(c, b).Run)
	sameAsLog(t, c.JetStream(), b)
}

// TestDamagedFilesAreSurvived: bytes turned in every file of the directory.
func TestDamagedFilesAreSurvived(t *testing.T) {
	t.Parallel()
	b, dir := newBook(t), t.TempDir()
	for range 50 {
		b.routed(t)
	}
	s := startServer(t, ServerConfig{Dir: dir})
	c := connectTo(t, s)
	copyOnce(t, c, b)
	c.Close()
	s.Shutdown()
	damaged := 0
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, EventsStream) {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil || len(content) == 0 {
			return err
		}
		damaged++
		content[len(content)/2] ^= 0xff
		return os.WriteFile(path, content, 0o600)
	})
	if err != nil || damaged < 2 {
		t.Fatalf("%d files, %v", damaged, err)
	}
	s, err = StartServer(ServerConfig{Dir: dir, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	c = connectTo(t, s)
	run(t, newRelay(c, b).Run)
	sameAsLog(t, c.JetStream(), b)
}

func TestListeningServerKeepsItsAddressOverARestart(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, ServerConfig{Listen: "127.0.0.1:0", Credentials: credentials})
	run(t, s.Run)
	c := connectTo(t, s)
	outside := plainClient(t, s, credentials.Subscriber)
	was := s.Addr().String()
	s.mu.Lock()
	first := s.current
	s.mu.Unlock()
	first.Shutdown() // as if it had failed by itself
	eventually(t, "another server runs", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.current != first && s.current.Running()
	})
	if now := s.Addr().String(); now != was {
		t.Errorf("at %s, was at %s", now, was)
	}
	eventually(t, "both clients are back", func() bool { return c.Err() == nil && outside.Status() == nats.CONNECTED })
}

func TestShutdownLetsGo(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := startServer(t, ServerConfig{Listen: "127.0.0.1:0", Credentials: credentials})
	outside := plainClient(t, s, credentials.Subscriber)
	c := connectTo(t, s)
	c.Close()
	began := time.Now()
	s.Shutdown()
	s.Shutdown()
	if took := time.Since(began); took > patience {
		t.Errorf("took %v", took)
	}
	if outside.IsConnected() {
		eventually(t, "the outside client is cut off", func() bool { return !outside.IsConnected() })
	}
	if _, err := s.InProcessConn(); !errors.Is(err, ErrServerClosed) {
		t.Errorf("%v", err)
	}
	if err := s.repair(repairRestart, ""); !errors.Is(err, ErrServerClosed) || !errors.Is(s.fault(), ErrServerClosed) {
		t.Error("a server that was shut down comes back")
	}
}

func TestServerLogNamesNoPassword(t *testing.T) {
	t.Parallel()
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := StartServer(ServerConfig{
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
	if log.Len() == 0 {
		t.Error("the log is empty")
	}
}

// TestLargeDirectoryDoesNotHoldUp: the start does not wait until a large
// directory has been read; what connects meanwhile waits, and so does the end.
func TestLargeDirectoryDoesNotHoldUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	b := newBook(t)
	b.routed(t)
	s := startServer(t, ServerConfig{Dir: dir})
	if s.starting.Load() || largerThan(dir, recoverAtOnce) {
		t.Fatal("a new directory counts as large")
	}
	c := connectTo(t, s)
	copyOnce(t, c, b)
	c.Close()
	s.Shutdown()

	pad := filepath.Join(dir, "pad")
	if err := os.WriteFile(pad, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(pad, recoverAtOnce+1); err != nil {
		t.Fatal(err)
	}
	credentials, err := NewCredentials(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	free := freeAddress(t)
	s, err = StartServer(ServerConfig{Dir: dir, Listen: free, Credentials: credentials, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	if got := s.Addr(); got == nil || got.String() != free {
		t.Errorf("the address is %v, want %s", got, free)
	}
	run(t, s.Run)
	c = connectTo(t, s)
	b.routed(t)
	run(t, newRelay(c, b).Run)
	sameAsLog(t, c.JetStream(), b)

	// One that cannot start is told by the log, and can be shut down.
	never, err := StartServer(ServerConfig{Dir: pad, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	never.Shutdown()
	if _, err := never.InProcessConn(); err == nil {
		t.Error("a file serves as a directory")
	}
}
