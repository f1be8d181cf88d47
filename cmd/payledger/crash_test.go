package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestKilledBetweenCommitAndAnswer kills the server under load until some command is
// recorded without an answer, then sends every command again under its key.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	dir := datadir.Dir(t.TempDir() + "/data")
	answered := map[string]answer{} // by key
	var sent []string
	for round := 0; len(answered) == 0 || createdIn(t, dir) <= len(answered); round++ {
		if round == 50 {
			t.Fatal("no command was recorded without an answer")
		}
		s := start(t, "demo", "--data", string(dir))
		var mu sync.Mutex
		var clients sync.WaitGroup
		before := len(answered)
		for client := range 32 {
			clients.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%08x-%04x-4000-8000-%012x", round, client, i)
					mu.Lock()
					sent = append(sent, key)
					mu.Unlock()
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
		eventually(t, "commands are answered", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) > before+32
		})
		s.kill()
		clients.Wait()
	}

	s := start(t, "demo", "--data", string(dir))
	again := inParallel(t, len(sent), 32, func(i int) (answer, error) {
		return s.send("POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", sent[i])
	})
	unanswered := 0
	ids := map[string]bool{}
	for i, key := range sent {
		a := again[i]
		if a.Status != 201 {
			t.Fatalf("key %s: %d %s", key, a.Status, a.Body)
		}
		replayed := a.Header.Get("Idempotent-Replayed") == "true"
		first, known := answered[key]
		switch {
		case known && (first.Status != 201 || !replayed || !bytes.Equal(first.Body, a.Body)):
			t.Fatalf("key %s: first %d %s, then (replayed: %t) %s", key, first.Status, first.Body, replayed, a.Body)
		case !known && replayed:
			unanswered++
		}
		ids[a.text(t, "id")] = true
	}
	if len(ids) != len(sent) {
		t.Errorf("%d keys made %d payments", len(sent), len(ids))
	}
	if unanswered == 0 {
		t.Error("no command was recorded without an answer")
	}
	s.stops(t)
}

// createdIn is the number of payments in a copy of the log, as the next start would
// read it.
func createdIn(t *testing.T, dir datadir.Dir) (n int) {
	t.Helper()
	content, err := os.ReadFile(dir.Ledger())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	store, err := bolt.OpenReadOnly(file)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Sequence == 1 {
			n++
		}
	}
	return n
}

func TestRestartKeepsEverything(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	s := start(t, "demo", "--data", dir)
	id := s.paid(t)
	refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id)).text(t, "id")
	open := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`).text(t, "id")
	eventually(t, "routed", func() bool {
		return s.do(t, 200, "GET", "/v1/payments/"+open, "").text(t, "status") == "awaiting_payment"
	})
	read := func(s *server) (all []string) {
		for _, path := range []string{
			"/v1/payments/" + id, "/v1/payments/" + id + "/events", "/v1/refunds/" + refund,
			"/v1/payments/" + open, "/v1/payments", "/v1/refunds",
		} {
			all = append(all, string(s.do(t, 200, "GET", path, "").Body))
		}
		return all
	}
	before := read(s)
	oldKey := s.APIKey
	for _, end := range []func(*server){func(s *server) { s.stop() }, (*server).kill} {
		end(s)
		s = start(t, "demo", "--data", dir)
		if after := read(s); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("after a restart:\n%s\nbefore:\n%s", after, before)
		}
	}
	old := *s
	old.APIKey = oldKey
	old.do(t, 401, "GET", "/v1/payments", "")

	// Payments under way continue.
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+open, `{"outcome":"paid"}`)
	s.do(t, 200, "POST", "/v1/sandbox/refunds/"+refund, `{"outcome":"failed"}`)
	s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id))
}

// TestDerivedFilesCanGo deletes everything that is derived from the log.
func TestDerivedFilesCanGo(t *testing.T) {
	t.Parallel()
	d := datadir.Dir(t.TempDir() + "/data")
	s := start(t, "demo", "--data", string(d))
	id := s.paid(t)
	waiting := s.do(t, 201, "POST", "/v1/payments", `{"amount":"2"}`).text(t, "id")
	s.stop()
	removeAll(t, d.Projections(), d.NATS())
	began := time.Now()
	s = start(t, "demo", "--data", string(d))
	t.Logf("ready again after %s", time.Since(began))
	if got := s.do(t, 200, "GET", "/v1/payments/"+id, "").text(t, "status"); got != "paid" {
		t.Errorf("status %s", got)
	}
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+waiting, `{"outcome":"paid"}`)
}
