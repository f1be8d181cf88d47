package checkout

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"payledger/domain"
)

// provided is a provider that hands every customer over, behind an obstacle.
type provided struct {
	obstacle Obstacle
	begin    error
}

func (p provided) Provider(string) (string, bool)     { return "Bank", p.obstacle != RouteGone }
func (p provided) Obstacle(domain.Payment) Obstacle   { return p.obstacle }
func (provided) Shown(domain.ID, int) *domain.HandOff { return nil }
func (provided) Wake(domain.ID)                       {}
func (p provided) Begin(context.Context, domain.ID, string, string) (*domain.HandOff, error) {
	return &domain.HandOff{Kind: domain.HandOffRedirect, URL: "https://bank.example/pay"}, p.begin
}

// behind is the page of a world whose route has the obstacle.
func behind(w *world, o Obstacle) http.Handler {
	h := w.handler(false)
	h.Attempts = provided{obstacle: o}
	return h
}

// offered is a payment whose customer was sent to the provider.
func (w *world) offered() domain.ID {
	id := w.create(domain.AwaitingPayment)
	w.do(id, domain.BeginAttempt{At: domain.InstantOf(w.now()), Language: "en", Merchant: "Shop"})
	w.do(id, domain.OfferAttempt{Number: 1, Reference: "ref-" + id.String(), HandOff: domain.HandOffRedirect})
	return id
}

func TestPausedRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := behind(w, RoutePaused)
	for _, status := range []domain.PaymentStatus{domain.Created, domain.AwaitingPayment} {
		path := w.path(w.create(status))
		for lang, want := range map[string]string{"en": "Nothing was lost", "ru": "Ничего не потеряно"} {
			body := get(h, path+"?lang="+lang).Body.String()
			if !strings.Contains(body, `data-state="paused"`) || !strings.Contains(body, want) || strings.Contains(body, "<form") {
				t.Errorf("%s: %s", status, body)
			}
		}
		if got := get(h, path+"/status").Body.String(); !strings.Contains(got, `"state":"paused"`) {
			t.Error(got)
		}
	}
	// The page was loaded before the route was paused.
	id := w.create(domain.AwaitingPayment)
	token := formToken(t, behind(w, ""), w.path(id))
	raced := w.handler(false)
	raced.Attempts = provided{begin: &domain.AttemptError{Reason: domain.AttemptPaused}}
	for name, h := range map[string]http.Handler{"before": h, "in between": raced} {
		rec := send(h, w.path(id), token, "", "Accept-Language", "ru")
		if rec.Code != http.StatusServiceUnavailable || rec.Header().Get("Retry-After") != "30" ||
			!strings.Contains(rec.Body.String(), "Оплата временно приостановлена") || !strings.Contains(rec.Body.String(), "деньги не списаны") {
			t.Errorf("%s: %s", name, page(rec))
		}
	}
	if l := w.log(); strings.Contains(l, `"error":`) {
		t.Errorf("the operator's own doing was logged as a failure: %s", l)
	}
	// An attempt that is open goes on, and what has ended is shown as ever.
	id = w.offered()
	if rec := send(h, w.path(id), formToken(t, h, w.path(id)), ""); rec.Header().Get("Location") != "https://bank.example/pay" {
		t.Error(page(rec))
	}
	if body := get(h, w.path(w.create(domain.Paid))).Body.String(); !strings.Contains(body, `data-state="paid"`) {
		t.Error(body)
	}
}

func TestRouteWithoutItsConnector(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.offered()
	token := formToken(t, behind(w, ""), w.path(id))
	h := behind(w, RouteGone)
	for lang, want := range map[string]string{"en": "do not pay again: nothing was lost", "ru": "не платите второй раз: ничего не потеряно"} {
		body := get(h, w.path(id)+"?lang="+lang).Body.String()
		if !strings.Contains(body, `data-state="orphaned"`) || !strings.Contains(body, want) || strings.Contains(body, "<form") {
			t.Error(body)
		}
	}
	if rec := send(h, w.path(id), token, ""); rec.Code != http.StatusSeeOther || strings.Contains(rec.Header().Get("Location"), "bank") {
		t.Error(page(rec))
	}
}

// The script puts the form into a page that was loaded before its payment could be paid, and a page
// keeps the policy that it was loaded with.
func TestPolicyAllowsTheHandOffThatMayCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := w.create(domain.AwaitingPayment)
	w.pass(2 * time.Hour)
	for name, test := range map[string]struct {
		h     http.Handler
		id    domain.ID
		state state
		lax   bool
	}{
		"every route is paused":   {behind(w, RoutePaused), w.create(domain.Created), paused, true},
		"no route yet":            {behind(w, ""), w.create(domain.Created), preparing, true},
		"the route is paused":     {behind(w, RoutePaused), w.create(domain.AwaitingPayment), paused, true},
		"the connector is gone":   {behind(w, RouteGone), w.offered(), orphaned, true},
		"the deadline has passed": {behind(w, ""), late, closed, false},
		"paid":                    {behind(w, ""), w.create(domain.Paid), paid, false},
		"failed":                  {behind(w, ""), w.create(domain.Failed), failed, false},
		"there are no connectors": {w.handler(true), w.create(domain.AwaitingPayment), open, false},
	} {
		rec := get(test.h, w.path(test.id))
		policy := rec.Header().Get("Content-Security-Policy")
		if !strings.Contains(rec.Body.String(), `data-state="`+string(test.state)+`"`) {
			t.Errorf("%s: %s", name, page(rec))
		}
		if strings.Contains(policy, "form-action 'self' https:;") != test.lax || !strings.Contains(policy, "form-action 'self'") {
			t.Errorf("%s: %s", name, policy)
		}
	}
}
