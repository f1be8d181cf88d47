package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestBackupUnderLoad takes a backup while payments are made, kills the server and
// continues from the backup in a new directory.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, file := filepath.Join(dir, "d"), filepath.Join(dir, "backup")
	s := start(t, "demo", "--data", d)
	var mu sync.Mutex
	answered := map[string]answer{} // by key
	var wg sync.WaitGroup
	for w := range 16 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("00000000-%04x-4000-8000-%012x", w, i)
				a, err := s.send("POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
				if err != nil {
					return // killed
				}
				mu.Lock()
				answered[key] = a
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(answered)
	}
	eventually(t, "payments are being made", func() bool { return count() > 200 })
	mu.Lock()
	before := maps.Clone(answered)
	mu.Unlock()
	out, code := payledger(t, "backup", file, "--data", d, "--with-keys", "--json")
	if code != 0 {
		t.Fatal(out)
	}
	after := count()
	eventually(t, "payments go on", func() bool { return count() > after })
	s.kill()
	wg.Wait()
	var report backupReport
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	checkLog(t, file, report.Position)

	fresh := filepath.Join(dir, "fresh")
	if out, code := payledger(t, "restore", file, "--data", fresh); code != 0 {
		t.Fatal(out)
	}
	again := start(t, "serve", "--data", fresh, "--sandbox", "--rate-writes", "0", "--rate-reads", "0")
	again.ProjectID, again.APIKey = s.ProjectID, s.APIKey
	for key, first := range before {
		a := again.do(t, 201, "POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
		if a.Header.Get("Idempotent-Replayed") != "true" || !bytes.Equal(a.Body, first.Body) {
			t.Fatalf("key %s was answered before the backup began: %s\nafter the restore: %s", key, first.Body, a.Body)
		}
	}
	again.paid(t)
	again.stops(t)
	t.Logf("%d payments before the backup, %d when it was done, %d events in it", len(before), after, report.Position)
}

// checkLog opens a copy of a log and checks it.
func checkLog(t *testing.T, file string, last eventstore.Position) {
	t.Helper()
	store, err := bolt.OpenReadOnly(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := store.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Last(t.Context()); err != nil || got != last {
		t.Fatalf("position %d, want %d (%v)", got, last, err)
	}
}

// TestRestoreGoesBack restores an earlier state of a log, continues it differently,
// and checks that everything derived from it follows.
func TestRestoreGoesBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, file := filepath.Join(dir, "d"), filepath.Join(dir, "backup")
	args := []string{"demo", "--data", d, "--nats-listen", "127.0.0.1:0"}
	s := start(t, args...)
	kept := s.paid(t)
	if out, code := payledger(t, "backup", file, "--data", d); code != 0 {
		t.Fatal(out)
	}
	var gone string
	for range 5 {
		gone = s.paid(t)
	}
	s.stop()
	s = start(t, args...) // another key, which the backup does not know
	position := eventsIn(t, s)
	s.stop()

	if out, code := payledger(t, "restore", file, "--data", d); code != cli.ExitRefused || !strings.Contains(out, "would be gone") {
		t.Fatalf("%d %s", code, out)
	}
	if out, code := payledger(t, "restore", file, "--data", d, "--force"); code != 0 || strings.Count(out, "Kept ") == 0 {
		t.Fatalf("%d %s", code, out)
	}
	s = start(t, args...)
	s.do(t, 404, "GET", "/v1/payments/"+gone, "")
	s.do(t, 200, "GET", "/v1/payments/"+kept, "")
	s.paid(t)
	if list := s.do(t, 200, "GET", "/v1/payments", "").object(t)["data"].([]any); len(list) != 2 {
		t.Errorf("%d payments, want 2", len(list))
	}
	eventually(t, "the copy in JetStream is that of the restored log", func() bool { return eventsIn(t, s) < position })
	s.stop()
	s = start(t, args...) // and nothing of it stands in the way of the next start
	s.do(t, 200, "GET", "/v1/payments/"+kept, "")
	s.stop()

	// The log that was moved aside is whole and can be restored.
	aside, err := filepath.Glob(filepath.Join(d, "ledger.db.replaced-*"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("%v %v", aside, err)
	}
	if out, code := payledger(t, "restore", aside[0], "--data", d, "--force"); code != 0 {
		t.Fatalf("%d %s", code, out)
	}
	s = start(t, args...)
	s.do(t, 200, "GET", "/v1/payments/"+gone, "")
}

// eventsIn waits until JetStream's copy of the log is complete, compares it with the
// log, and returns its length.
func eventsIn(t *testing.T, s *server) int {
	t.Helper()
	var passwords map[string]struct{ User, Password string }
	content, err := os.ReadFile(datadir.Dir(s.Data).Credentials())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &passwords); err != nil {
		t.Fatal(err)
	}
	c := passwords["subscriber"]
	nc, err := nats.Connect(s.NATSAddress, nats.UserInfo(c.User, c.Password), nats.CustomInboxPrefix("_INBOX_subscriber"), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "JetStream has the log", func() bool {
		lines := strings.Split(strings.TrimSpace(string(s.do(t, 200, "GET", "/v1/events", "").Body)), "\n")
		consumer, err := js.Consumer(t.Context(), "EVENTS", "subscriber")
		if err != nil {
			return false
		}
		info, err := consumer.Info(t.Context())
		if err != nil {
			return false
		}
		n = int(info.NumPending) + int(info.Delivered.Consumer)
		return n == len(lines)
	})
	return n
}
