package httpapi

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"payledger/domain"

	"github.com/gorilla/mux"
	"github.com/rs/zerolog"
)

// discard is a response writer that drops everything.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkHandler measures what the handler costs above a bare router that reads
// the body and answers the same bytes. The log is in memory, so POST measures the
// handler and the fold, not a disk.
func BenchmarkHandler(b *testing.B) {
	const body = `{"amount":"1500.00","description":"order-1042","payload":{"cart":7}}`
	s := start(b, func(c *settings) { c.Log = zerolog.New(io.Discard); c.Limits = domain.Limits{} })
	s.cfg.IDs = domain.NewIDs(s.clock.Now, rand.Reader, domain.ID{})
	m := s.merchant("")
	first := m.pay(body)
	id := first.object().ID
	bare := mux.NewRouter()
	bare.Path("/v1/payments").Methods("POST").HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		_, _ = w.Write(first.Body)
	})
	bare.Path("/v1/payments/{id}").Methods("GET").HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(first.Body) })
	const (
		noKey = iota
		newKey
		sameKey
	)
	run := func(name string, h http.Handler, method, target, body string, key int) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				r := httptest.NewRequest(method, target, bytes.NewReader([]byte(body)))
				r.Header.Set("Authorization", m.authorization())
				r.Header.Set("Content-Type", "application/json")
				switch key {
				case newKey:
					r.Header.Set("Idempotency-Key", fmt.Sprintf("0190f5a1-7c1e-4b6e-%04x-%012x", b.N%65536, i))
				case sameKey:
					r.Header.Set("Idempotency-Key", "0190f5a1-7c1e-4b6e-8000-000000000000")
				}
				h.ServeHTTP(discard{http.Header{}}, r)
			}
		})
	}
	run("POST", s.public, "POST", "/v1/payments", body, noKey)
	run("POST/keyed", s.public, "POST", "/v1/payments", body, newKey)
	run("POST/repeat", s.public, "POST", "/v1/payments", body, sameKey)
	run("POST/mux", bare, "POST", "/v1/payments", body, noKey)
	run("GET", s.public, "GET", "/v1/payments/"+id, "", noKey)
	run("GET/mux", bare, "GET", "/v1/payments/"+id, "", noKey)
	run("refused", s.public, "POST", "/v1/payments", `{"amount":"x"}`, noKey)
}
