package edge

import (
	"bytes"
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// TestAnswersOfPages has pages that fail at each point. An answer that has
// begun is cut short, so that no client takes a part of it for the whole.
func TestAnswersOfPages(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := New(Config{Now: time.Now, Entropy: rand.Reader, Log: zerolog.New(&log)})
	refused := wire.Problem{Code: domain.RateLimited}
	for _, c := range []struct {
		name   string
		serve  func(*Exchange) error
		cut    bool
		status int
		record string
	}{
		{
			"a problem that the page shows itself", func(x *Exchange) error {
				x.WriteHeader(x.Problem(refused).Status)
				return nil
			}, false, 429, `"code":"rate_limited"`,
		},
		{"an error before the answer", func(*Exchange) error { return refused }, false, 429, `"code":"rate_limited"`},
		{"a panic before the answer", func(*Exchange) error { panic("oops") }, false, 500, `"error":"panic: oops"`},
		{
			"an error in the answer", func(x *Exchange) error {
				_ = x.Problem(refused)
				_, _ = x.Write([]byte("half"))
				return errors.New("the rest is lost")
			}, true, 200, `"error":"the rest is lost"`,
		},
		{
			"a panic in the answer", func(x *Exchange) error {
				_ = x.Problem(refused)
				_, _ = x.Write([]byte("half"))
				panic("oops")
			}, true, 200, `"error":"panic: oops"`,
		},
	} {
		log.Reset()
		w := httptest.NewRecorder()
		cut := func() (cut bool) {
			defer func() { cut = recover() == http.ErrAbortHandler }() //nolint:errorlint // identity is its contract
			page := Pages("shop", c.serve)
			e.Wrap(func(x *Exchange) { page.ServeHTTP(x, x.Request) }).
				ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody))
			return false
		}()
		if cut != c.cut || w.Code != c.status {
			t.Errorf("%s: cut %v, status %d", c.name, cut, w.Code)
		}
		if got := log.String(); !strings.Contains(got, c.record) || !strings.Contains(got, `"operation":"shop"`) {
			t.Errorf("%s: %s", c.name, got)
		}
	}
}
