package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
)

// hook is a merchant's receiver that records each notification. It is slow, and
// sometimes it fails.
type hook struct {
	*httptest.Server
	mu     sync.Mutex
	open   map[net.Conn]bool
	body   map[string]string         // by webhook-id
	newest map[string]uint64         // sequence, by endpoint's path and payment
	heard  map[string]map[uint64]int // sequences, by the same
	count  int
	wrongs []string
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{
		open: map[net.Conn]bool{}, body: map[string]string{},
		newest: map[string]uint64{}, heard: map[string]map[uint64]int{},
	}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ConnState = func(c net.Conn, state http.ConnState) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if state == http.StateClosed {
			delete(h.open, c)
		} else {
			h.open[c] = true
		}
	}
	h.Start()
	t.Cleanup(h.Close)
	return h
}

// retriesAtOnce are flags of a server: what a hook refuses, one in seven, need not wait
// for the usual schedule.
func retriesAtOnce() []string {
	return []string{"--webhook-retry-schedule", "0s" + strings.Repeat(",100ms", 25)}
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the sender died in the midst of it
	}
	n := h.take(r.URL.Path, r.Header.Get("Webhook-Id"), string(body))
	<-time.After(time.Duration(n%5) * 5 * time.Millisecond)
	if n%7 == 0 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// take records a notification and returns their number.
func (h *hook) take(path, id, body string) int {
	var n struct {
		ID, Type string
		Sequence uint64
		Data     struct {
			ID        string
			PaymentID string `json:"payment_id"`
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count++
	wrong := func(format string, args ...any) { h.wrongs = append(h.wrongs, fmt.Sprintf(format, args...)) }
	if err := json.Unmarshal([]byte(body), &n); err != nil || n.ID != id {
		wrong("%s %s: %v", id, body, err)
	}
	if before, ok := h.body[id]; ok && before != body {
		wrong("%s was %s and became %s", id, before, body)
	}
	h.body[id] = body
	lane := path + " " + n.Data.ID
	if n.Data.PaymentID != "" {
		lane = path + " " + n.Data.PaymentID
	}
	if n.Sequence < h.newest[lane] {
		wrong("%s: %s of sequence %d comes after %d", lane, n.Type, n.Sequence, h.newest[lane])
	}
	h.newest[lane] = max(h.newest[lane], n.Sequence)
	if h.heard[lane] == nil {
		h.heard[lane] = map[uint64]int{}
	}
	h.heard[lane][n.Sequence]++
	return h.count
}

func (h *hook) taken() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.count
}

// quiet waits until all connections of a killed sender are closed: then its last
// notifications have been recorded.
func (h *hook) quiet(t *testing.T) {
	t.Helper()
	eventually(t, "the dead sender's connections are gone", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.open) == 0
	})
}

// recorded is an event of a payment.
type recorded struct {
	Type, Stream string
	Sequence     uint64
}

// payments lists the events of payments in the log.
func (h *shop) payments(t *testing.T) (all []recorded) {
	t.Helper()
	out, code := payledger(t, "events", "tail", "--data", h.data, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		var e struct {
			Event struct {
				recorded
				Kind string
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if e.Event.Kind == "payment" {
			all = append(all, e.Event.recorded)
		}
	}
	return all
}

// missed lists the events that an endpoint for all kinds should have got and did
// not.
func (h *hook) missed(path string, events []recorded) (all []string) {
	newest := map[string]uint64{}
	for _, e := range events {
		newest[e.Stream] = e.Sequence
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		lane := path + " " + e.Stream
		final := e.Type == "payment.paid" || e.Type == "payment.failed" || e.Type == "payment.expired"
		switch {
		case h.heard[lane][e.Sequence] > 0, !final && e.Sequence < newest[e.Stream]:
		default:
			all = append(all, fmt.Sprintf("%s: %s of sequence %d, of %d", lane, e.Type, e.Sequence, newest[e.Stream]))
		}
	}
	return all
}

// TestKillInMidDelivery kills the server during deliveries. No receiver sees a
// payment go backward, repeated notifications are equal byte for byte, and no final
// event is lost; also when the JetStream directory is deleted in between, and when the
// views are, or are replaced by an older copy.
func TestKillInMidDelivery(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]bool{"views kept": false, "views lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killInMidDelivery(t, rounds(3, 20), lose)
		})
	}
}

func killInMidDelivery(t *testing.T, often int, lose bool) {
	h, to := newShop(t, filepath.Join(t.TempDir(), "data")), newHook(t)
	d, older := datadir.Dir(h.data), filepath.Join(t.TempDir(), "projections.db")
	serve := func() *server {
		return h.serve(t, append(retriesAtOnce(), "--webhook-allow-private")...)
	}
	for round := range often {
		s := serve()
		if round == 0 {
			s.do(t, 201, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":%q,"kinds":["payment.created","payment.awaiting_payment",`+
				`"payment.paid","payment.expired","payment.failed","refund.pending","refund.succeeded","refund.failed"]}`, to.URL+"/all"))
			s.do(t, 201, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":%q}`, to.URL+"/final"))
		}
		wait := h.open(s, 8, 1<<16, round)
		goal := to.taken() + 80
		eventually(t, "notifications arrive", func() bool { return to.taken() >= goal })
		s.kill()
		wait()
		to.quiet(t)
		if round%2 == 0 {
			removeAll(t, d.NATS())
		}
		switch {
		case lose && round%3 == 0:
			copyFile(t, d.Projections(), older)
		case lose && round%3 == 1:
			removeAll(t, d.Projections())
		case lose && round%3 == 2:
			copyFile(t, older, d.Projections())
		}
	}
	s := serve()
	var missed []string
	t.Cleanup(func() {
		if len(missed) > 0 {
			t.Error("missed:", missed)
		}
	})
	eventually(t, "everybody has heard of everything", func() bool {
		missed = to.missed("/all", h.payments(t))
		return len(missed) == 0
	})
	events := h.payments(t)
	var final []recorded
	for _, e := range events {
		if e.Type == "payment.paid" {
			final = append(final, e)
		}
	}
	eventually(t, "everybody has heard of the outcomes", func() bool { return len(to.missed("/final", final)) == 0 })
	if len(final) == 0 || len(to.missed("/none", events)) == 0 {
		t.Error("the comparison cannot fail")
	}
	s.stops(t)
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, wrong := range to.wrongs {
		t.Error(wrong)
	}
	repeated := 0
	for _, sequences := range to.heard {
		for _, n := range sequences {
			repeated += n - 1
		}
	}
	if repeated == 0 {
		t.Error("nothing was ever sent again")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestHookNotices: the receiver of the test above finds each of the faults it looks
// for.
func TestHookNotices(t *testing.T) {
	t.Parallel()
	body := func(sequence int, of string) string {
		return fmt.Sprintf(`{"id":"1","type":"x","sequence":%d,"data":{"id":"r","payment_id":%q}}`, sequence, of)
	}
	h := newHook(t)
	h.take("/", "1", body(2, "p"))
	h.take("/", "1", body(2, "p"))
	if len(h.wrongs) != 0 {
		t.Fatal(h.wrongs)
	}
	for i, again := range []string{body(1, "p"), "nonsense"} {
		if h.take("/", "1", again); len(h.wrongs) < i+1 {
			t.Errorf("%s passes", again)
		}
	}
}
