package checkout

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func TestPayAndDecline(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]struct{ event, heading string }{
		"pay":     {domain.TypePaymentPaid, "Paid"},
		"decline": {domain.TypePaymentFailed, "The payment did not go through"},
	} {
		w := newWorld(t)
		h := w.handler(true)
		id := w.create(domain.AwaitingPayment)
		path := w.path(id)
		rec := send(h, path, formToken(t, h, path), choice)
		if rec.Code != http.StatusSeeOther || rec.Header().Get("Location") != strings.TrimPrefix(path, "/p/") {
			t.Fatal(page(rec))
		}
		if got := w.events(id); got[len(got)-1] != want.event {
			t.Errorf("%s: events %v", choice, got)
		}
		if body := get(h, path).Body.String(); !strings.Contains(body, "<h1>"+want.heading+"</h1>") {
			t.Errorf("%s: %s", choice, body)
		}
	}
}

func TestChosenLanguageSurvivesPaying(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment))
	if body := get(h, path+"?lang=ru").Body.String(); !strings.Contains(body, `action="`+path[3:]+`?lang=ru"`) {
		t.Errorf("the form forgets the language:\n%s", body)
	}
	rec := send(h, path+"?lang=ru", formToken(t, h, path), "pay")
	if got := rec.Header().Get("Location"); got != path[3:]+"?lang=ru" {
		t.Errorf("Location %q", got)
	}
}

// One form counts once, however often, at whatever speed and with whatever
// choice it is sent.
func TestReplayedForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	id := w.create(domain.AwaitingPayment)
	path := w.path(id)
	form := formToken(t, h, path)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if rec := send(h, path, form, "pay"); rec.Code != http.StatusSeeOther {
				t.Error(page(rec))
			}
		})
	}
	wg.Wait()
	for _, choice := range []string{"pay", "decline"} {
		if rec := send(h, path, form, choice); rec.Code != http.StatusSeeOther {
			t.Error(page(rec))
		}
	}
	want := []string{domain.TypePaymentCreated, domain.TypePaymentRouteAssigned, domain.TypePaymentPaid}
	if diff := cmp.Diff(want, w.events(id)); diff != "" {
		t.Error(diff)
	}
}

// The provider's reference is the payment's: the same for all its forms,
// whichever key version they are of, and another for another payment.
func TestReferences(t *testing.T) {
	t.Parallel()
	l := newTestLinks(t)
	v, older, other := &visit{id: domain.ID{1}, version: 2}, &visit{id: domain.ID{1}, version: 1}, &visit{id: domain.ID{2}, version: 2}
	var got []string
	for _, of := range []*visit{v, v, older, other} {
		reference, ok := l.openForm(of, l.newForm(of))
		if !ok {
			t.Fatal("a form of its own is refused")
		}
		got = append(got, reference)
	}
	if got[0] != got[1] || got[0] != got[2] || got[0] == got[3] {
		t.Errorf("references %q", got)
	}
	if err := (domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: got[0], Amount: 1, Currency: "RUB", StartedAt: 1,
	}).Validate(); err != nil {
		t.Errorf("no provider's reference: %v", err)
	}
}

// slow is a sandbox that takes its time, so that forms that are not kept
// apart would all be in it at once.
type slow struct{ *world }

func (s slow) SignalPayment(ctx context.Context, p domain.Payment, o domain.Outcome, reference string) (domain.SignalReply, error) {
	time.Sleep(time.Second)
	return s.world.SignalPayment(ctx, p, o, reference)
}

// Forms of several windows that are sent at the same moment are one attempt:
// no money comes twice, and the payment ends one way.
func TestFormsOfSeveralWindows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(domain.AwaitingPayment)
		path := w.path(id)
		h := w.handler(true)
		h.Sandbox = slow{w}
		choices := []string{"pay", "decline", "pay", "decline", "pay"}
		var forms []string
		for range choices {
			forms = append(forms, formToken(t, h, path))
		}
		var sent sync.WaitGroup
		for i, choice := range choices {
			sent.Go(func() {
				if rec := send(h, path, forms[i], choice); rec.Code != http.StatusSeeOther {
					t.Error(page(rec))
				}
			})
		}
		sent.Wait()
		if got := w.events(id); len(got) != 3 || len(w.signals) != 1 {
			t.Errorf("events %v, signals %v", got, w.signals)
		}
	})
}

// A form that cannot have its turn in time is offered again.
func TestFormsWaitForTheirTurnNoLongerThanForAnOutcome(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		id := w.create(domain.AwaitingPayment)
		h := w.handler(true)
		form := formToken(t, h, w.path(id))
		h.turn <- struct{}{}
		if rec := send(h, w.path(id), form, "pay"); rec.Code != http.StatusServiceUnavailable ||
			!strings.Contains(rec.Body.String(), `name="form" value="`+form+`"`) {
			t.Error(page(rec))
		}
		<-h.turn
		if rec := send(h, w.path(id), form, "pay"); rec.Code != http.StatusSeeOther {
			t.Error(page(rec))
		}
	})
}

// A form that was open in another window when the payment ended leads to the
// result and leaves no trace.
func TestFormsOfPaymentsThatAreOver(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*world, domain.ID){
		"paid":     func(w *world, id domain.ID) { w.provider(id, domain.OutcomePaid) },
		"failed":   func(w *world, id domain.ID) { w.provider(id, domain.OutcomeFailed) },
		"expired":  func(w *world, id domain.ID) { w.provider(id, domain.OutcomeExpired) },
		"deadline": func(w *world, _ domain.ID) { w.pass(time.Hour) },
	} {
		w := newWorld(t)
		h := w.handler(true)
		id := w.create(domain.AwaitingPayment)
		form := formToken(t, h, w.path(id))
		end(w, id)
		before := w.events(id)
		if rec := send(h, w.path(id), form, "pay"); rec.Code != http.StatusSeeOther {
			t.Errorf("%s: %s", name, page(rec))
		}
		if diff := cmp.Diff(before, w.events(id)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	id, other := w.create(domain.AwaitingPayment), w.create(domain.AwaitingPayment)
	path := w.path(id)
	good := formToken(t, h, path)
	const invalid, foreign = "The form is not valid", "This did not come from the payment page"
	for name, c := range map[string]struct {
		token  string
		header []string
		says   string
	}{
		"no token":               {"", nil, invalid},
		"another payment's":      {formToken(t, h, w.path(other)), nil, invalid},
		"another key version's":  {formToken(t, h, w.links.URL("", 1, id)), nil, invalid},
		"forged":                 {strings.Repeat("A", len(good)), nil, invalid},
		"one bit off, the nonce": {flip(good, 3), nil, invalid},
		"one bit off, the MAC":   {flip(good, 40), nil, invalid},
		"padded":                 {good + "=", nil, invalid},
		"with a line break":      {good + "\n", nil, invalid},
		"a line break within":    {good[:9] + "\r\n" + good[9:], nil, invalid},
		"doubled":                {good + good, nil, invalid},
		"cut":                    {good[:len(good)-4], nil, invalid},
		"cross-site":             {good, []string{"Sec-Fetch-Site", "cross-site"}, foreign},
		"same-site":              {good, []string{"Sec-Fetch-Site", "same-site"}, foreign},
		"null origin, cross":     {good, []string{"Sec-Fetch-Site", "cross-site", "Origin", "null"}, foreign},
		"foreign origin":         {good, []string{"Sec-Fetch-Site", "", "Origin", "https://evil.example"}, foreign},
		"other port":             {good, []string{"Sec-Fetch-Site", "", "Origin", "https://pay.example.com:444"}, foreign},
	} {
		rec := send(h, path, c.token, "pay", c.header...)
		if rec.Code != http.StatusForbidden || !strings.Contains(rec.Body.String(), c.says) {
			t.Errorf("%s: %s", name, page(rec))
		}
	}
	if body := send(h, path, "", "pay").Body.String(); !strings.Contains(body, `<a href="./`+path[3:]+`">Back to the payment</a>`) {
		t.Errorf("no way back in\n%s", body)
	}
	if got := w.events(id); len(got) != 2 || len(w.signals) != 0 {
		t.Errorf("forms that were refused left %v and %v", got, w.signals)
	}
}

func flip(s string, at int) string {
	i := strings.IndexByte(base64url, s[at])
	return s[:at] + string(base64url[i^1]) + s[at+1:]
}

func TestOwnOrigins(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{
		"modern browser":                   {"Sec-Fetch-Site", "same-origin"},
		"plain http, no referrer":          {"Sec-Fetch-Site", "", "Origin", "null"},
		"no browser":                       {"Sec-Fetch-Site", "", "Origin", ""},
		"old browser":                      {"Sec-Fetch-Site", "", "Origin", "https://pay.example.com"},
		"address typed by the user":        {"Sec-Fetch-Site", "none"},
		"behind a proxy that changes Host": {"Sec-Fetch-Site", "", "Origin", "https://pay.example.com", "Host", "10.0.0.7"},
	} {
		w := newWorld(t)
		h := w.handler(true)
		path := w.path(w.create(domain.AwaitingPayment))
		if rec := send(h, path, formToken(t, h, path), "pay", header...); rec.Code != http.StatusSeeOther {
			t.Errorf("%s: %s", name, page(rec))
		}
	}
}

func TestBadForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	id := w.create(domain.AwaitingPayment)
	path := w.path(id)
	form := "form=" + formToken(t, h, path)
	const urlencoded = "application/x-www-form-urlencoded"
	for name, c := range map[string]struct {
		contentType, body string
		want              int
	}{
		"no type":            {"", form + "&outcome=pay", http.StatusUnsupportedMediaType},
		"JSON":               {"application/json", `{"outcome":"pay"}`, http.StatusUnsupportedMediaType},
		"multipart":          {"multipart/form-data; boundary=x", form + "&outcome=pay", http.StatusUnsupportedMediaType},
		"text":               {"text/plain", form + "&outcome=pay", http.StatusUnsupportedMediaType},
		"other charset":      {urlencoded + "; charset=utf-16", form + "&outcome=pay", http.StatusUnsupportedMediaType},
		"broken type":        {"application/", form + "&outcome=pay", http.StatusUnsupportedMediaType},
		"no outcome":         {urlencoded, form, http.StatusBadRequest},
		"unknown outcome":    {urlencoded, form + "&outcome=paid", http.StatusBadRequest},
		"two outcomes":       {urlencoded, form + "&outcome=pay&outcome=decline", http.StatusBadRequest},
		"two tokens":         {urlencoded, form + "&" + form + "&outcome=pay", http.StatusForbidden},
		"empty":              {urlencoded, "", http.StatusForbidden},
		"broken escape":      {urlencoded, form + "&outcome=%zz", http.StatusBadRequest},
		"semicolons":         {urlencoded, form + ";outcome=pay", http.StatusBadRequest},
		"too large":          {urlencoded, form + "&outcome=pay&x=" + strings.Repeat("x", maxForm), http.StatusRequestEntityTooLarge},
		"outcome in the URL": {urlencoded, form, http.StatusBadRequest},
	} {
		target := path
		if name == "outcome in the URL" {
			target += "?outcome=pay"
		}
		rec := call(h, http.MethodPost, target, c.body, "Content-Type", c.contentType)
		if rec.Code != c.want || !strings.Contains(rec.Body.String(), "Nothing was done.") {
			t.Errorf("%s: %s", name, page(rec))
		}
	}
	rec := call(h, http.MethodPost, path, form+"&outcome=pay", "Content-Type", urlencoded, "Content-Encoding", "gzip")
	if rec.Code != http.StatusUnsupportedMediaType {
		t.Errorf("encoded: %s", page(rec))
	}
	if rec := send(h, w.path(domain.ID{9}), "", "pay"); rec.Code != http.StatusNotFound {
		t.Errorf("unknown payment: %s", page(rec))
	}
	if got := w.events(id); len(got) != 2 {
		t.Errorf("events %v", got)
	}
	rec = call(h, http.MethodPost, path, form+"&outcome=pay", "Content-Type", "Application/X-WWW-Form-Urlencoded; charset=UTF-8")
	if rec.Code != http.StatusSeeOther {
		t.Errorf("the same form, well said: %s", page(rec))
	}
}

// Of a payment without a route, as earlier versions made them, no page has a form: one that comes all
// the same changes nothing and leads to the page.
func TestFormWithoutARoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create(domain.Created)
	form := w.links.newForm(&visit{id: id, version: w.links.Current()})
	for name, h := range map[string]http.Handler{"sandbox": w.handler(true), "provider": behind(w, "")} {
		if rec := send(h, w.path(id), form, "pay"); rec.Code != http.StatusSeeOther || len(w.events(id)) != 1 {
			t.Errorf("%s: %v, %s", name, w.events(id), page(rec))
		}
	}
}

// When the provider's answer is lost the customer can repeat the same form,
// which still counts once.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]error{"deadline": context.DeadlineExceeded, "other": errors.New("no connection")} {
		w := newWorld(t)
		h := w.handler(true)
		id := w.create(domain.AwaitingPayment)
		path := w.path(id)
		form := formToken(t, h, path)
		w.lost = lost
		rec := send(h, path, form, "pay")
		if body := rec.Body.String(); rec.Code != http.StatusServiceUnavailable ||
			!strings.Contains(body, "The result is not known yet") ||
			!strings.Contains(body, `name="form" value="`+form+`"`) || !strings.Contains(body, `name="outcome" value="pay"`) {
			t.Errorf("%s: %s", name, page(rec))
		}
		w.lost = nil
		if rec := send(h, path, form, "pay"); rec.Code != http.StatusSeeOther {
			t.Errorf("%s: again: %s", name, page(rec))
		}
		if got := w.events(id); len(got) != 3 {
			t.Errorf("%s: events %v", name, got)
		}
	}
}

// parked is a sandbox whose signals reach nobody.
type parked struct{}

func (parked) SignalPayment(context.Context, domain.Payment, domain.Outcome, string) (domain.SignalReply, error) {
	return domain.SignalReply{Result: domain.SignalParked, Reason: "not a signal"}, nil
}

func TestParkedSignalIsOurFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.serve(Config{Views: w, Links: w.links, Now: w.now, Sandbox: parked{}})
	path := w.path(w.create(domain.AwaitingPayment))
	if rec := send(h, path, formToken(t, h, path), "pay"); rec.Code != http.StatusInternalServerError {
		t.Error(page(rec))
	}
}
