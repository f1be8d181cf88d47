package baseline

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"
)

// sink takes the notifications of webhooks. It has no secret to check their
// signatures by.
type sink struct {
	mu   sync.Mutex
	got  int
	took []time.Duration // of those that say when their payment was sent
}

// take counts what is signed. The payload of a payment may have a member "sent",
// its time in nanoseconds since 1970.
func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil || r.Header.Get("Webhook-Id") == "" || r.Header.Get("Webhook-Timestamp") == "" || r.Header.Get("Webhook-Signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.got++
	if _, rest, ok := bytes.Cut(body, []byte(`"sent":`)); ok {
		digits, _, _ := bytes.Cut(rest, []byte("}"))
		sent, _ := strconv.ParseInt(string(digits), 10, 64)
		s.took = append(s.took, now.Sub(time.Unix(0, sent)))
	}
	w.WriteHeader(http.StatusNoContent)
}

// count answers with the number of notifications.
func (s *sink) count(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	reply(w, http.StatusOK, strconv.AppendInt(nil, int64(s.got), 10))
}

// p99 answers with the 99th percentile, in milliseconds, of how long those
// notifications took that came since it was last asked.
func (s *sink) p99(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.took) == 0 {
		reply(w, http.StatusNotFound, []byte("no notification said when it was sent"))
		return
	}
	slices.Sort(s.took)
	reply(w, http.StatusOK, fmt.Appendf(nil, "%.3f", float64(s.took[len(s.took)*99/100])/1e6))
	s.took = nil
}
