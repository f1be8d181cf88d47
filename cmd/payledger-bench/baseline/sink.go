package baseline

import (
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
)

// sink takes the notifications of webhooks and says how many it has got.
type sink struct{ got atomic.Int64 }

// ServeHTTP counts what is signed; it has no secret to check the signature by.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		reply(w, http.StatusOK, strconv.AppendInt(nil, s.got.Load(), 10))
		return
	}
	if _, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, maxBody)); err != nil ||
		r.Header.Get("Webhook-Id") == "" || r.Header.Get("Webhook-Timestamp") == "" || r.Header.Get("Webhook-Signature") == "" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.got.Add(1)
	w.WriteHeader(http.StatusNoContent)
}
