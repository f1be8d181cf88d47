package edge

import (
	"context"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// TestEachPageOfCSVHasItsTime reads a list so long, or so slowly, that all of
// it takes more than one request may.
func TestEachPageOfCSVHasItsTime(t *testing.T) {
	t.Parallel()
	e := New(Config{Now: time.Now, Entropy: rand.Reader, Log: zerolog.Nop()})
	var left []time.Duration
	rechecked := 0
	list := func(x *Exchange) error {
		x.renew(time.Second) // what is left after a slow page
		recheck := func(context.Context) error { rechecked++; return nil }
		return x.ReplyCSV(Table{Columns: []string{"n"}, Recheck: recheck, Next: func(ctx context.Context, _ int) ([][]string, bool, error) {
			until, _ := ctx.Deadline()
			left = append(left, time.Until(until))
			return [][]string{{"1"}}, len(left) < 3, nil
		}})
	}
	e.Wrap(func(x *Exchange) {
		x.Route = &Route{Method: http.MethodGet, Handle: list}
		if err := x.run(); err != nil {
			t.Error(err)
		}
	}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if len(left) != 3 || left[0] > time.Second || left[1] < maxTime/2 || left[2] < maxTime/2 || rechecked != 2 {
		t.Errorf("the pages had %v left, %d checks between them", left, rechecked)
	}
}
