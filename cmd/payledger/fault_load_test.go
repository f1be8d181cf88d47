package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// shop is a project whose customers keep creating, reading, paying and refunding
// payments, and the answers they got.
type shop struct {
	data     string
	frugal   bool // nothing is paid or refunded
	project  string
	key      string
	mu       sync.Mutex
	sent     []string          // idempotency keys of payments
	made     map[string]string // by key: the payment's id
	rank     map[string]int    // by payment: how far on it was, at least
	refunds  map[string]string // by payment: its refund
	refused  map[int]int       // answers by status that are neither success nor wrong
	surprise []string          // answers that no client may get
	grew     chan struct{}
}

// newShop makes a data directory.
func newShop(t testing.TB, dir string) *shop {
	t.Helper()
	h := &shop{
		data: dir, made: map[string]string{}, rank: map[string]int{}, refunds: map[string]string{},
		refused: map[int]int{}, grew: make(chan struct{}, 1),
	}
	if out, code := payledger(t, "init", "--data", dir); code != 0 {
		t.Fatalf("init: %d\n%s", code, out)
	}
	return h
}

// args are the flags of a server for the shop.
func (h *shop) args(more ...string) []string {
	return append([]string{"serve", "--sandbox", "--data", h.data, "--rate-writes", "0", "--rate-reads", "0", "--log-level", "warn"}, more...)
}

// serve starts a server; the first one registers the project.
func (h *shop) serve(t testing.TB, more ...string) *server {
	t.Helper()
	s := start(t, h.args(more...)...)
	if h.project == "" {
		s.newProject(t)
		h.project, h.key = s.ProjectID, s.APIKey
	}
	s.ProjectID, s.APIKey = h.project, h.key
	return s
}

// pace is how long a customer waits after each payment. All of them together still have
// some request under way at any time, and leave the processors to other tests.
const pace = 10 * time.Millisecond

// open starts this many customers, each until a request fails or limit payments are
// made. wait returns when all have ended.
func (h *shop) open(s *server, customers, limit, round int) (wait func()) {
	var all sync.WaitGroup
	for c := range customers {
		all.Go(func() {
			for i := range limit {
				key := fmt.Sprintf("%08x-%04x-4000-8000-%012x", round, c, i)
				if h.buy(s, key, i%3 == 0 && !h.frugal) != nil {
					return
				}
				time.Sleep(pace)
			}
		})
	}
	return all.Wait
}

// buy makes one payment and, if asked, pays and refunds it. An error means that no
// answer came.
func (h *shop) buy(s *server, key string, refund bool) error {
	h.note(func() { h.sent = append(h.sent, key) })
	a, err := h.send(s, "POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
	id := member(a, "id")
	if err != nil || id == "" {
		return err
	}
	h.note(func() { h.made[key] = id })
	if err := h.look(s, id); err != nil || !refund {
		return err
	}
	a, err = h.send(s, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	if err != nil || a.Status != 200 {
		return err
	}
	h.note(func() { h.rank[id] = ranks(member(a, "status")) })
	a, err = h.send(s, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id), "Idempotency-Key", "f"+key[1:])
	if err != nil || a.Status != 201 {
		return err
	}
	h.note(func() { h.refunds[id] = member(a, "id") })
	return h.look(s, id)
}

// look reads a payment: it must not be behind an earlier answer.
func (h *shop) look(s *server, id string) error {
	h.mu.Lock()
	known := h.rank[id]
	h.mu.Unlock()
	a, err := h.send(s, "GET", "/v1/payments/"+id, "")
	if err != nil || a.Status == 503 {
		return err
	}
	now := ranks(member(a, "status"))
	h.note(func() {
		if now < known {
			h.surprise = append(h.surprise, fmt.Sprintf("GET of payment %s, known at %d, answers %d %s", id, known, a.Status, a.Body))
		}
		h.rank[id] = max(h.rank[id], now)
	})
	return nil
}

func (h *shop) send(s *server, method, path, body string, header ...string) (answer, error) {
	a, err := s.send(method, path, body, header...)
	if err == nil && a.Status >= 300 {
		h.note(func() {
			h.refused[a.Status]++
			if a.Status != 503 {
				h.surprise = append(h.surprise, fmt.Sprintf("%s %s: %d %s", method, path, a.Status, a.Body))
			}
		})
	}
	return a, err
}

func (h *shop) note(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	select {
	case h.grew <- struct{}{}:
	default:
	}
}

// until waits for a condition on what note records.
func (h *shop) until(t testing.TB, what string, enough func() bool) {
	t.Helper()
	for {
		h.mu.Lock()
		done := enough()
		h.mu.Unlock()
		if done {
			return
		}
		select {
		case <-h.grew:
		case <-t.Context().Done():
			t.Fatalf("the test ended while it waited: %s", what)
		}
	}
}

// ranks orders statuses: they move forward only. An unknown one comes first.
func ranks(status string) int {
	return 1 + slices.IndexFunc([]string{"created", "awaiting_payment", "paid expired failed"}, func(s string) bool {
		return status != "" && strings.Contains(s, status)
	})
}

func member(a answer, name string) string {
	var m map[string]any
	if json.Unmarshal(a.Body, &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}

// wrongs lists the differences between the ledger and the customers' answers: none
// if everything acknowledged is there, and nothing twice.
func (h *shop) wrongs(t testing.TB, s *server) (wrongs []string) {
	t.Helper()
	wrong := func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) }
	h.mu.Lock()
	wrongs = append(wrongs, h.surprise...)
	h.mu.Unlock()

	out, code := payledger(t, "events", "tail", "--data", h.data, "--json")
	if code != 0 {
		return append(wrongs, out)
	}
	created, refunded, position := map[string]int{}, map[string]int{}, 0
	for line := range strings.Lines(out) {
		var e struct {
			Position int
			Event    struct{ Type, Stream string }
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			wrong("%s: %v", line, err)
		}
		position++
		if e.Position != position {
			wrong("position %d comes after %d", e.Position, position-1)
		}
		switch e.Event.Type {
		case "payment.created":
			created[e.Event.Stream]++
		case "refund.created":
			refunded[e.Event.Stream]++
		}
	}
	for id, n := range refunded {
		if n > 1 {
			wrong("payment %s has %d refunds", id, n)
		}
	}
	if len(created) > len(h.sent) {
		wrong("%d payments of %d requests", len(created), len(h.sent))
	}
	for _, id := range h.made {
		if created[id] != 1 {
			wrong("payment %s was created %d times", id, created[id])
			continue
		}
		before := len(h.surprise)
		if err := h.look(s, id); err != nil {
			wrong("GET of payment %s: %v", id, err)
		}
		wrongs = append(wrongs, h.surprise[before:]...)
		if refund := h.refunds[id]; refund != "" && refunded[id] != 1 {
			wrong("payment %s lost its refund %s", id, refund)
		}
	}
	return wrongs
}

// intact checks the ledger, then sends every request for a payment again:
// each has happened once, or does so now.
func (h *shop) intact(t testing.TB, what string, s *server) {
	t.Helper()
	if wrongs := h.wrongs(t, s); len(wrongs) > 0 {
		t.Fatalf("%s: %d wrongs: %q", what, len(wrongs), wrongs[:min(len(wrongs), 5)])
	}
	ids := map[string]string{}
	for _, key := range h.sent {
		a := s.do(t, 201, "POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
		id := a.text(t, "id")
		if known := h.made[key]; known != "" && (known != id || a.Header.Get("Idempotent-Replayed") != "true") {
			t.Fatalf("%s: key %s made payment %s, then %s", what, key, known, a.Body)
		}
		if other, twice := ids[id]; twice {
			t.Fatalf("%s: keys %s and %s made one payment", what, key, other)
		}
		ids[id] = key
		h.made[key] = id
	}
}
