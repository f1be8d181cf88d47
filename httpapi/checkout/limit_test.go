package checkout

import (
	"net/http"
	"strings"
	"testing"

	"payledger/domain"
)

// Beyond the limit there is a page of its own that says when to try again.
func TestLimit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment))
	asset := assetPath(t, get(h, path).Body.String())
	h.Limits.RateCustomers = 40 // a minute: another one after 1.5 s
	for range 40 {
		get(h, path)
	}
	for range 400 {
		get(h, path+"/status")
	}
	rec := get(h, path, "Accept-Language", "ru")
	if rec.Code != http.StatusTooManyRequests || rec.Header().Get("Retry-After") != "2" ||
		!strings.Contains(rec.Body.String(), "<h1>Слишком много запросов</h1>") || !strings.Contains(rec.Body.String(), "через 2 секунды") ||
		!strings.Contains(rec.Body.String(), `<a href="./`+path[3:]+`">`) {
		t.Error(page(rec))
	}
	wellFormed(t, rec.Body.String())
	if rec := get(h, path+"/status"); rec.Code != http.StatusTooManyRequests || rec.Header().Get("Content-Type") != "application/problem+json" {
		t.Error(page(rec))
	}
	if rec := get(h, asset); rec.Code != http.StatusOK {
		t.Errorf("a file of the page: %s", page(rec))
	}
	if rec := call(h, http.MethodPut, path, ""); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("within the limit: %s", page(rec))
	}
}

func assetPath(t *testing.T, body string) string {
	t.Helper()
	_, rest, ok := strings.Cut(body, `href="./assets/`)
	if !ok {
		t.Fatal(body)
	}
	name, _, _ := strings.Cut(rest, `"`)
	return "/p/assets/" + name
}
