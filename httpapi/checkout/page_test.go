package checkout

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
)

// situations are all a customer can find behind a link.
func situations() map[state]func(w *world) domain.ID {
	in := func(s domain.PaymentStatus) func(*world) domain.ID {
		return func(w *world) domain.ID { return w.create(s) }
	}
	return map[state]func(w *world) domain.ID{
		preparing: in(domain.Created),
		open:      in(domain.AwaitingPayment),
		closed: func(w *world) domain.ID {
			id := w.create(domain.AwaitingPayment)
			w.pass(time.Hour)
			return id
		},
		paid:    in(domain.Paid),
		expired: in(domain.Expired),
		failed:  in(domain.Failed),
	}
}

// The page says in both languages what it has to say, and no more.
func TestPageInEveryState(t *testing.T) {
	t.Parallel()
	headings := map[string]map[state]string{
		"en": {
			preparing: "<h1>Preparing your payment</h1>", open: `<span class="label">Payment to</span> <bdi>Чайная лавка</bdi>`,
			closed: "<h1>The time to pay has run out</h1>", paid: "<h1>Paid</h1>", expired: "<h1>Payment expired</h1>",
			failed: "<h1>The payment did not go through</h1>",
		},
		"ru": {
			preparing: "<h1>Готовим платёж</h1>", open: `<span class="label">Получатель</span> <bdi>Чайная лавка</bdi>`,
			closed: "<h1>Время на оплату истекло</h1>", paid: "<h1>Оплачено</h1>", expired: "<h1>Срок оплаты истёк</h1>",
			failed: "<h1>Платёж не прошёл</h1>",
		},
	}
	amounts := map[string]string{"en": "₽1,500.00", "ru": "1\u00a0500,00\u00a0₽"}
	for s, arrange := range situations() {
		for lang, heading := range headings {
			for _, sandbox := range []bool{true, false} {
				name := string(s) + " " + lang
				if sandbox {
					name += " sandbox"
				}
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						w := newWorld(t)
						id := arrange(w)
						h := w.handler(sandbox)
						rec := get(h, w.path(id), "Accept-Language", lang)
						body := rec.Body.String()
						if rec.Code != http.StatusOK || rec.Header().Get("Content-Type") != "text/html; charset=utf-8" {
							t.Fatal(page(rec))
						}
						want := []string{
							`<html lang="` + lang + `">`, heading[s], `<p class="amount">` + amounts[lang] + `</p>`,
							"<bdi>Чайная лавка</bdi>", `data-state="` + string(s) + `"`,
						}
						never := []string{
							secretText, "order-1042", "+7999", "bank-77", projectID, "style=", "<script>", "onclick",
							"http://", "https://",
						}
						has := func(yes bool, parts ...string) {
							if yes {
								want = append(want, parts...)
							} else {
								never = append(never, parts...)
							}
						}
						has(sandbox && s == open, "<form ", `name="outcome"`, `value="pay"`, `value="decline"`)
						words := localeOf(t, lang)
						has(!sandbox && s == open, words.T("checkout.awaiting"))
						has(sandbox, words.T("checkout.test"))
						has(s == open, `<svg class="qr-code"`, words.T("checkout.qr"))
						has(s == paid, id.String(), `<time datetime="2026-11-20T10:15:00.000Z" data-local="short">`, "data-print")
						has(s == open || s == preparing, `datetime="2026-11-20T11:15:00.000Z"`, "data-closes-in=")
						has(!s.final(), `<noscript><meta http-equiv="refresh"`)
						for _, part := range want {
							if !strings.Contains(body, part) {
								t.Errorf("no %q in\n%s", part, body)
							}
						}
						for _, part := range never {
							if strings.Contains(body, part) {
								t.Errorf("%q in\n%s", part, body)
							}
						}
						wellFormed(t, body)
					})
				})
			}
		}
	}
}

func localeOf(t *testing.T, lang string) *ui.Locale {
	t.Helper()
	site, err := ui.New(files)
	if err != nil {
		t.Fatal(err)
	}
	return site.Locale(httptest.NewRequest(http.MethodGet, "/?lang="+lang, nil))
}

// A payment that gets its route within a moment is shown open at once.
func TestFinalPagesLeadBackToTheShop(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := domain.DefaultSettings()
	settings.ShopURL = "https://shop.example/orders?done=1&of=2"
	w.project(projects.ChangeProject{Name: "Чайная лавка", Settings: settings})
	const link = `href="https://shop.example/orders?done=1&amp;of=2" rel="noopener noreferrer"`
	for status, leads := range map[domain.PaymentStatus]bool{
		domain.AwaitingPayment: false, domain.Paid: true, domain.Expired: true, domain.Failed: true,
	} {
		if body := get(w.handler(true), w.path(w.create(status))).Body.String(); strings.Contains(body, link) != leads {
			t.Errorf("%s: %v\n%s", status, !leads, body)
		}
	}
	w.project(projects.ChangeProject{Name: "Чайная лавка", Settings: domain.DefaultSettings()})
	if strings.Contains(get(w.handler(true), w.path(w.create(domain.Paid))).Body.String(), "shop.example") {
		t.Error("the address stays after it was taken away")
	}
}

// The page of a payment that has no route yet is loaded again by itself.
func TestPageAwaitsTheRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create(domain.Created)
	h := w.handler(true)
	body := get(h, w.path(id)).Body.String()
	if !strings.Contains(body, `data-state="preparing"`) || !strings.Contains(body, `http-equiv="refresh" content="2`) || strings.Contains(body, "<form") {
		t.Error(body)
	}
	w.route(id)
	if body := get(h, w.path(id)).Body.String(); !strings.Contains(body, `data-state="open"`) {
		t.Error(body)
	}
}

func TestUnroutedPaymentClosesAtItsDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.create(domain.Created)
	h := w.handler(true)
	w.pass(time.Hour)
	if body := get(h, w.path(id)).Body.String(); !strings.Contains(body, `data-state="closed"`) {
		t.Error(body)
	}
}

// The deadline itself is outside: what begins then would be late.
func TestDeadlineToTheMillisecond(t *testing.T) {
	t.Parallel()
	p := domain.Payment{Status: domain.AwaitingPayment, ExpiresAt: 1000}
	for now, want := range map[domain.Instant]state{999: open, 1000: closed, 1001: closed} {
		if got := stateOf(p, now); got != want {
			t.Errorf("at %d of 1000: %s, want %s", now, got, want)
		}
	}
}

func TestHeadIsGetWithoutBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	server := newServer(t, w.handler(true))
	for _, path := range []string{w.path(w.create(domain.Paid)), w.path(domain.ID{1}), "/p/" + ui.AssetFolder + "none.css"} {
		var got [2]*http.Response
		for i, method := range []string{http.MethodGet, http.MethodHead} {
			r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got[i], err = server.Client().Do(r); err != nil {
				t.Fatal(err)
			}
			_ = got[i].Body.Close()
		}
		if got[0].StatusCode != got[1].StatusCode || got[0].ContentLength != got[1].ContentLength {
			t.Errorf("%s: GET %d with %d bytes, HEAD %d with %d", path,
				got[0].StatusCode, got[0].ContentLength, got[1].StatusCode, got[1].ContentLength)
		}
	}
}

// Every address that is not a payment's gets one and the same answer.
func TestUnknownLinksAreAllTheSame(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	good := w.path(w.create(domain.AwaitingPayment))
	last := strings.IndexByte(base64url, good[len(good)-1])
	want := get(h, w.path(domain.ID{1, 2, 3})).Body.String()
	if !strings.Contains(want, "There is no such payment") {
		t.Fatal(want)
	}
	for _, path := range []string{
		good + "x", good[:len(good)-1], good[:len(good)-1] + string(base64url[last^1]), strings.Replace(good, "/p/2", "/p/1", 1),
		strings.Replace(good, "/p/2", "/p/3", 1), strings.Replace(good, "/p/2", "/p/02", 1),
		strings.Replace(good, "/p/2", "/p/%32", 1), good + "%2Fstatus", good + "=", "/p/", "/p/assets", "/p/x",
	} {
		if rec := get(h, path); rec.Code != http.StatusNotFound || rec.Body.String() != want {
			t.Errorf("%s: %s", path, page(rec))
		}
	}
	for _, path := range []string{good + "/", good + "/other", "/p//x", "/p/assets/page.css", "/p/assets/../" + good[3:]} {
		rec := get(h, path)
		if rec.Code != http.StatusNotFound || !strings.Contains(rec.Body.String(), "There is no such payment") {
			t.Errorf("%s: %s", path, page(rec))
		}
		up := strings.Repeat("../", strings.Count(path, "/")-2)
		if !strings.Contains(rec.Body.String(), `rel="stylesheet" href="`+up+`assets/`) {
			t.Errorf("%s: no way from there to the stylesheet\n%s", path, rec.Body)
		}
	}
	for _, path := range []string{w.path(domain.ID{1}) + "/status", "/p/x/status"} {
		if rec := get(h, path); rec.Code != http.StatusNotFound || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s", path, page(rec))
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	want := map[state]string{
		preparing: `{"state":"preparing","closes_in":3600,"left":"1 hour"}`,
		open:      `{"state":"open","closes_in":3600,"left":"1 hour"}`,
		closed:    `{"state":"closed","closes_in":0,"left":"less than a minute"}`,
		paid:      `{"state":"paid","closes_in":3600,"left":"1 hour"}`,
		expired:   `{"state":"expired","closes_in":3600,"left":"1 hour"}`,
		failed:    `{"state":"failed","closes_in":3600,"left":"1 hour"}`,
	}
	for s, arrange := range situations() {
		w := newWorld(t)
		path := w.path(arrange(w)) + "/status"
		rec := get(w.handler(true), path)
		if got := strings.TrimSpace(rec.Body.String()); rec.Code != http.StatusOK || got != want[s] {
			t.Errorf("%s: %d %s", s, rec.Code, got)
		}
		if c := rec.Header().Get("Cache-Control"); c != "no-store" {
			t.Errorf("%s: Cache-Control %q", s, c)
		}
	}
}

// The script is answered like any client of the API: the failures of a status are problem documents.
func TestFailuresOfTheStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.handler(true)
	path := w.path(w.create(domain.AwaitingPayment)) + "/status"
	fails := func(rec *httptest.ResponseRecorder, code domain.Code) {
		t.Helper()
		var p wire.Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &p); err != nil || rec.Header().Get("Content-Type") != "application/problem+json" ||
			p.Type != "https://pay.example.com/problems/"+string(code) || p.Code != code || p.Status != rec.Code ||
			p.Title == "" || p.Detail == "" || p.RequestID == "" || p.RequestID != rec.Header().Get("X-Request-Id") {
			t.Errorf("want %s: %v, %s", code, err, page(rec))
		}
	}
	fails(get(h, "/p/x/status"), domain.PathNotFound)
	fails(get(h, w.path(domain.ID{1})+"/status"), domain.PathNotFound)
	fails(call(h, http.MethodPost, path, ""), domain.MethodNotAllowed)
	h.Limits.RateCustomers = 1
	for range statusShare {
		get(h, path)
	}
	fails(get(h, path), domain.RateLimited)
	h.Limits.RateCustomers = 0
	w.breakViews(eventstore.ErrClosed)
	fails(get(h, path), domain.Unavailable)
	w.breakViews(errBroken)
	fails(get(h, path), domain.InternalError)
}

func TestMerchantNamesStayText(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `</title><script>alert(1)</script>`,
		`{{.Form}}`, `' onmouseover='alert(1)`, "\u202eevil", `javascript:alert(1)`, `</bdi></h1><form action=//evil>`,
	} {
		w := newWorld(t)
		w.project(projects.ChangeProject{Name: name, Settings: domain.DefaultSettings()})
		for _, s := range []domain.PaymentStatus{domain.AwaitingPayment, domain.Paid} {
			body := get(w.handler(true), w.path(w.create(s))).Body.String()
			wellFormed(t, body)
			if n := strings.Count(body, "<script"); n != 1 {
				t.Errorf("%q: %d scripts", name, n)
			}
			for _, part := range []string{"<img", "<form action=", " onmouseover='"} {
				if strings.Contains(body, part) {
					t.Errorf("%q: %s in\n%s", name, part, body)
				}
			}
		}
	}
}

func TestOtherMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	path := w.path(w.create(domain.AwaitingPayment))
	for _, sandbox := range []bool{true, false} {
		h := w.handler(sandbox)
		allow := "GET, HEAD"
		methods := []string{http.MethodPut, http.MethodDelete, http.MethodOptions, http.MethodPatch, "TRACE"}
		if sandbox {
			allow += ", POST"
		} else {
			methods = append(methods, http.MethodPost)
		}
		for _, m := range methods {
			if rec := call(h, m, path, ""); rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != allow {
				t.Errorf("%s, sandbox %v: %s", m, sandbox, page(rec))
			}
		}
		rec := call(h, http.MethodPost, path+"/status", "")
		if rec.Code != http.StatusMethodNotAllowed || rec.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("POST to the status, sandbox %v: %s", sandbox, page(rec))
		}
	}
}

func TestOwnFaults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		code  int
		retry string
		text  string
	}{
		"unknown": {errBroken, http.StatusInternalServerError, "", "Something went wrong on our side"},
		"damaged": {&eventstore.CorruptError{Position: 7}, http.StatusInternalServerError, "", "Something went wrong"},
		"closed":  {eventstore.ErrClosed, http.StatusServiceUnavailable, "5", "The service is not available"},
		"fatal":   {&eventstore.FatalError{Err: errBroken}, http.StatusServiceUnavailable, "5", "not available"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			h := w.handler(true)
			path := w.path(w.create(domain.AwaitingPayment))
			form := formToken(t, h, path)
			w.breakViews(c.err)
			for _, rec := range []*httptest.ResponseRecorder{get(h, path), send(h, path, form, "pay")} {
				if body := rec.Body.String(); rec.Code != c.code || rec.Header().Get("Retry-After") != c.retry ||
					!strings.Contains(body, c.text) || strings.Contains(body, "purpose") {
					t.Error(page(rec))
				}
			}
			if rec := get(h, path+"/status"); rec.Code != c.code || rec.Header().Get("Retry-After") != c.retry {
				t.Error(page(rec))
			}
			if l := w.log(); !strings.Contains(l, `"level":"error"`) || strings.Contains(l, path[3:]) {
				t.Errorf("log: %s", l)
			}
		})
	}
}

func TestNewRefusesHalfAConfiguration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]Config{
		"views":      {Links: w.links, Now: w.now},
		"links":      {Views: w, Now: w.now},
		"clock":      {Views: w, Links: w.links},
		"public URL": {Views: w, Links: w.links, Now: w.now, PublicURL: "pay.example.com"},
	} {
		if _, err := New(c); err == nil {
			t.Errorf("without a good %s there is no error", name)
		}
	}
}
