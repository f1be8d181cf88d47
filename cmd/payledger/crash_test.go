package main

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
)

// TestKilledBetweenCommitAndAnswer kills the server under load until some
// command was recorded whose answer nobody got, then sends every command
// again under its key.
func TestKilledBetweenCommitAndAnswer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	answered := map[string]answer{} // by key
	sent, unanswered := []string{}, 0
	for round := 0; unanswered == 0; round++ {
		if round == 20 {
			t.Fatal("in 20 kills none fell between commit and answer")
		}
		s := start(t, "demo", "--data", dir)
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 32 {
			wg.Go(func() {
				for i := 0; ; i++ {
					key := fmt.Sprintf("%08x-%04x-4000-8000-%012x", round, w, i)
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
		eventually(t, "payments are being made", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) > 60*(round+1)
		})
		s.kill()
		wg.Wait()

		s = start(t, "demo", "--data", dir)
		again := inParallel(t, len(sent), 32, func(i int) (answer, error) {
			return s.send("POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", sent[i])
		})
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
			answered[key] = a
		}
		ids := map[string]bool{}
		for _, key := range sent {
			ids[answered[key].text(t, "id")] = true
		}
		if len(ids) != len(sent) {
			t.Fatalf("%d keys made %d payments", len(sent), len(ids))
		}
		if code := s.stop(); code != 0 {
			t.Fatalf("exit code %d", code)
		}
	}
	t.Logf("%d commands were recorded without an answer", unanswered)
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

	// What was under way goes on.
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
