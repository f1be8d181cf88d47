package nodeaccount

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/httpapi/account/store"
	"payledger/notifier/bus/embedded"
)

func openFile(t *testing.T) *store.File {
	t.Helper()
	f, err := store.Open(filepath.Join(t.TempDir(), "account.db"), zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// openNodes are the stores of two nodes, which have one server here.
func openNodes(t *testing.T) (a, b *Store) {
	t.Helper()
	server, err := embedded.Start(embedded.Config{Dir: t.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	all := []members.Address{{Name: "a"}, {Name: "b"}}
	open := func(name string) *Store {
		m := &members.Member{Cluster: domain.ID{1}, Node: name}
		m.Members = all
		conn, err := server.Connect()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		s, err := Open(openFile(t), &members.Node{Member: m, Server: server, Conn: conn, Report: func(err error) { t.Log(err) }})
		if err != nil {
			t.Fatal(err)
		}
		s.replicas, s.formTime = 1, 100*time.Millisecond
		t.Cleanup(func() {
			if err := s.unasked(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	return open("a"), open("b")
}

// TestStores checks what the account relies on, of a server that is alone and across two
// nodes: what one of them did the other knows.
func TestStores(t *testing.T) {
	t.Parallel()
	f := openFile(t)
	t.Run("alone", func(t *testing.T) { checkStores(t, f, f) })
	a, b := openNodes(t)
	t.Run("nodes", func(t *testing.T) { checkStores(t, a, b) })
}

func checkStores(t *testing.T, a, b store.Store) {
	end := time.Now().Add(time.Hour)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	key, other := store.Session{Project: "prj_1", KeyID: "key_1"}, store.Session{Project: "prj_1", KeyID: "key_2"}
	use := func(in store.Store, token string, want bool, led string) {
		t.Helper()
		fresh, path, err := in.UseForm(token, end)
		if fresh != want || path != led || err != nil {
			t.Errorf("form %s: fresh %t, led to %q, %v", token, fresh, path, err)
		}
	}
	ok(a.FormLed("form", "never used"))
	use(a, "form", true, "")
	use(b, "form", false, "")
	ok(a.FormLed("form", "payments/1"))
	ok(a.FormLed("form", "payments/1"))
	use(b, "form", false, "payments/1")
	use(b, "form 2", true, "")
	led := time.AfterFunc(20*time.Millisecond, func() { _ = b.FormLed("form 2", "secrets/x") })
	if _, alone := a.(*store.File); !alone {
		use(a, "form 2", false, "secrets/x") // it was being carried out
	}
	led.Stop()

	now := time.Now()
	a.Keep("s", store.Reveal{Of: key, Kind: "key", Name: "n", Secret: "sk_1", Path: "keys", Until: now.Add(time.Minute)}, now)
	a.Keep("late", store.Reveal{Of: key, Secret: "sk_2", Until: now.Add(-time.Minute)}, now)
	if _, ok := b.Take("s", other, now); ok {
		t.Error("another key's secret is shown")
	}
	if r, ok := b.Take("s", key, now); !ok || r.Secret != "sk_1" || r.Name != "n" || r.Kind != "key" || r.Path != "keys" {
		t.Errorf("the secret: %t %+v", ok, r)
	}
	for _, name := range []string{"s", "late", "unknown"} {
		if _, ok := a.Take(name, key, now); ok {
			t.Errorf("%s is shown", name)
		}
	}
}

// TestStreamOfAnotherProgram: a stream that has the name and another program's messages is
// not taken for the node's.
func TestStreamOfAnotherProgram(t *testing.T) {
	t.Parallel()
	s, _ := openNodes(t)
	_, err := s.node.Conn.JetStream().CreateStream(t.Context(), jetstream.StreamConfig{Name: formsName, Subjects: []string{"forms"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.stream(t.Context(), formsName); err == nil || !strings.Contains(err.Error(), "give payledger an account of its own") {
		t.Errorf("another program's: %v", err)
	}
}
