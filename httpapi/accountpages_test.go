package httpapi

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/account"
)

// accountKeys are the account's keys of a master key.
func accountKeys(t testing.TB) *account.Keys {
	t.Helper()
	keys, err := account.NewKeys([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// withAccount gives a server an address at which a browser is signed in to the account.
func withAccount(t testing.TB) func(*settings) {
	t.Helper()
	return func(c *settings) {
		c.PublicURL = "http://pay.example.com" // cookies of https would not be sent back here
	}
}

// browser is one person's browser: it keeps cookies and follows no redirect by
// itself.
type browser struct {
	t testing.TB
	s *server
	c *http.Client
}

func (s *server) browser() *browser {
	s.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return &browser{s.t, s, &http.Client{Jar: jar, CheckRedirect: s.client.CheckRedirect, Transport: s.client.Transport}}
}

// screen is a page as the server sent it.
type screen struct {
	b      *browser
	at     string // its path
	Code   int
	Header http.Header
	Text   string
}

func (b *browser) send(r *http.Request) *screen {
	b.t.Helper()
	res, err := b.c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return &screen{b, r.URL.Path, res.StatusCode, res.Header, string(body)}
}

func (b *browser) open(path string) *screen {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, b.s.url+path, http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	return b.send(r)
}

// post sends a form as a browser does from a page of the account.
func (b *browser) post(path string, fields url.Values, headers ...header) *screen {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.s.url+path, strings.NewReader(fields.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", b.s.url)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for _, h := range headers {
		if h[1] == "" {
			r.Header.Del(h[0])
		} else {
			r.Header.Set(h[0], h[1])
		}
	}
	return b.send(r)
}

// want checks the status.
func (s *screen) want(status int) *screen {
	s.b.t.Helper()
	if s.Code != status {
		s.b.t.Fatalf("%s: answer %d, want %d\n%s", s.at, s.Code, status, s.Text)
	}
	return s
}

// leads checks that it is a redirect to the path, and opens it.
func (s *screen) leads(path string) *screen {
	s.b.t.Helper()
	s.want(http.StatusSeeOther)
	base, err := url.Parse(s.b.s.url + s.at)
	if err != nil {
		s.b.t.Fatal(err)
	}
	to, err := base.Parse(s.Header.Get("Location"))
	if err != nil || to.RequestURI() != path {
		s.b.t.Fatalf("%s leads to %v (%v), want %s", s.at, to, err, path)
	}
	return s.b.open(to.RequestURI())
}

func (s *screen) has(texts ...string) *screen {
	s.b.t.Helper()
	for _, t := range texts {
		if !strings.Contains(s.Text, t) {
			s.b.t.Errorf("%s has not %q:\n%s", s.at, t, s.Text)
		}
	}
	return s
}

func (s *screen) lacks(texts ...string) *screen {
	s.b.t.Helper()
	for _, t := range texts {
		if strings.Contains(s.Text, t) {
			s.b.t.Errorf("%s has %q", s.at, t)
		}
	}
	return s
}

var formToken = regexp.MustCompile(`name="form" value="([^"]+)"`)

// token is the form token of the last form on the page with this hook.
func (s *screen) token(hook string) string {
	s.b.t.Helper()
	_, from, ok := strings.Cut(s.Text, `data-hook="`+hook+`"`)
	m := formToken.FindStringSubmatch(from)
	if !ok || m == nil {
		s.b.t.Fatalf("%s has no form %s:\n%s", s.at, hook, s.Text)
	}
	return html.UnescapeString(m[1])
}

func (b *browser) signIn(m shop) *browser {
	b.t.Helper()
	b.post("/account/signin", url.Values{"project": {m.project}, "key": {m.secret}}).want(http.StatusSeeOther)
	return b
}

// Pages of the account are limited by address and, over all addresses, by project.
// Reads by the API do not count.
func TestRateLimitOfTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t), func(c *settings) {
		c.Limits.RateCustomers = 20
		c.Limits.RateReads = 3
	})
	m := s.merchant("")
	b := s.browser().signIn(m)
	for range 6 {
		b.open("/account/keys").want(200)
	}
	if got := b.open("/account/keys").want(429).Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q", got)
	}
	m.get("/v1/payments").want(200, "")
	s.clock.advance(time.Second)
	b.open("/account/keys").want(200)
	stranger := s.browser()
	n := 0
	for ; n < 20 && stranger.open("/account/signin").Code == 200; n++ {
	}
	if n == 0 || n >= 20 {
		t.Errorf("a stranger opens %d pages", n)
	}
	stranger.open("/account/signin").want(429).has("Too many requests")
}

// Each page writes one log record of its request, with the key and the refusal.
func TestRecordsOfPages(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("", "read")
	before := s.log.String()
	b := s.browser().signIn(m)
	form := b.open("/account/session").token("signout")
	b.open("/account/payments").want(200)
	b.post("/account/payments/new", url.Values{"form": {form}, "amount": {"1"}}).want(403)
	records := func() []string {
		return strings.Split(strings.TrimSpace(strings.TrimPrefix(s.log.String(), before)), "\n")
	}
	for len(records()) < 4 && t.Context().Err() == nil { // a record is written after the client has its answer
		time.Sleep(time.Millisecond)
	}
	all := records()
	if len(all) != 4 || strings.Count(strings.Join(all, ""), `"code":"scope_missing"`) != 1 {
		t.Fatalf("records:\n%s", strings.Join(all, "\n"))
	}
	for _, r := range all {
		for _, part := range []string{`"operation":"account"`, `"client":"127.0.0.1"`, `"project":"` + m.project + `"`, `"key":"` + m.keyID + `"`} {
			if !strings.Contains(r, part) {
				t.Errorf("the record has not %s: %s", part, r)
			}
		}
	}
}

func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t), func(c *settings) { c.FailedAuthPerMinute = 3 })
	m := s.merchant("")
	b := s.browser()
	page := b.open("/account/payments?status=paid").leads("/account/signin?next=payments%3Fstatus%3Dpaid")
	page.want(200).has(`autocomplete="username"`, `autocomplete="current-password"`, `type="password"`)
	for name, want := range map[string]string{
		"X-Frame-Options": "DENY", "Cache-Control": "no-store", "Referrer-Policy": "same-origin",
	} {
		if got := page.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if csp := page.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "frame-ancestors 'none'") {
		t.Error(csp)
	}

	wrong := b.post("/account/signin", url.Values{"project": {m.project}, "key": {"sk_wrong"}})
	wrong.want(401).has("project id or the key is wrong", m.project).lacks("sk_wrong")
	unknown := b.post("/account/signin", url.Values{"project": {"prj_unknown"}, "key": {m.secret}}).want(401)
	if unknown.lacks(m.secret); strings.ReplaceAll(wrong.Text, m.project, "prj_unknown") != unknown.Text &&
		stripRequest(wrong.Text, m.project) != stripRequest(unknown.Text, "prj_unknown") {
		t.Error("a wrong key and an unknown project are answered differently")
	}
	b.post("/account/signin", url.Values{"project": {m.project}, "key": {"sk_wrong"}}).want(401)
	slow := b.post("/account/signin", url.Values{"project": {m.project}, "key": {"sk_wrong"}}).want(429).has("Too many failed attempts")
	if slow.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	b.post("/account/signin", url.Values{"project": {m.project}, "key": {"sk_wrong"}}, header{"X-Forwarded-For", "192.0.2.1"}).want(401) // of another client behind a proxy
	// The right key is never refused because wrong ones were sent.
	in := b.post("/account/signin", url.Values{"project": {" " + m.project + " "}, "key": {m.secret}, "next": {"payments?status=paid"}})
	cookie := in.Header.Get("Set-Cookie")
	for _, want := range []string{"payledger_account=", "Path=/", "HttpOnly", "SameSite=Strict"} {
		if !strings.Contains(cookie, want) {
			t.Errorf("cookie %q lacks %s", cookie, want)
		}
	}
	in.leads("/account/payments?status=paid").want(200).has("Tea &amp; Co").lacks(m.secret)

	b.post("/account/signout", url.Values{"form": {b.open("/account/payments").token("signout")}}).
		leads("/account/signin?why=out").has("signed out")
	b.open("/account/payments").want(303)
}

func stripRequest(text, project string) string { return strings.ReplaceAll(text, project, "") }

// TestWhereSignInLeads: addresses outside the account are refused.
func TestWhereSignInLeads(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	for _, next := range []string{"https://evil.example/", "//evil.example/account/payments", `\\evil.example`, "/etc", "payments/../../x", "signin", "payments\r\nX: y"} {
		to := s.browser().post("/account/signin", url.Values{"project": {m.project}, "key": {m.secret}, "next": {next}}).want(303).Header.Get("Location")
		if strings.Contains(to, "evil") || strings.Contains(to, "etc") || strings.Contains(to, "X:") {
			t.Errorf("next %q leads to %q", next, to)
		}
	}
}

func TestSecureCookies(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t), func(c *settings) { c.PublicURL = publicURL })
	m := s.merchant("")
	r := s.browser().post("/account/signin", url.Values{"project": {m.project}, "key": {m.secret}}).want(303)
	if c := r.Header.Get("Set-Cookie"); !strings.HasPrefix(c, "__Host-payledger_account=") || !strings.Contains(c, "Secure") || strings.Contains(c, "Domain") {
		t.Error(c)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	one, two := s.browser().signIn(m), s.browser().signIn(m)
	other := s.browser().signIn(s.merchant(""))
	one.post("/account/signout-everywhere", url.Values{"form": {one.open("/account/session").token("signout-everywhere")}}).
		leads("/account/signin?why=everywhere")
	two.open("/account/payments").leads("/account/signin?next=payments&why=ended").has("session has expired")
	other.open("/account/payments").want(200)

	// A form of a session that has ended has no effect.
	again := s.browser().signIn(m)
	form := again.open("/account/payments/new").token("create")
	s.adminDo("POST", "/admin/projects/"+m.project+"/keys", `{}`).want(201, "")
	s.adminDo("DELETE", "/admin/projects/"+m.project+"/keys/"+m.keyID, "").want(204, "")
	again.post("/account/payments/new", url.Values{"form": {form}, "amount": {"10"}}).leads("/account/signin?why=ended")
	again.open("/account/payments").want(303)
	if n := len(s.events(m.project)); n != 0 {
		t.Errorf("%d events", n)
	}

	p := s.merchant("")
	b := s.browser().signIn(p)
	s.adminDo("POST", "/admin/projects/"+p.project+"/disable", "").want(200, "")
	b.open("/account/payments").want(303)
}

// events are the events of a project's payments.
func (s *server) events(project string) (types []string) {
	s.t.Helper()
	for r, err := range s.store.Scan(s.t.Context(), 0, filterOf(project)) {
		if err != nil {
			s.t.Fatal(err)
		}
		e, err := s.cfg.Ledger.Codec.Decode(r)
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasPrefix(e.Type(), "payment.") || strings.HasPrefix(e.Type(), "refund.") {
			types = append(types, e.Type())
		}
	}
	return types
}

func TestFormsOfTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	fields := func(token string) url.Values {
		return url.Values{"form": {token}, "amount": {"1 500,50"}, "description": {"by hand"}, "payload": {` {"cart": 7} `}}
	}
	page := b.open("/account/payments/new").want(200)
	for _, h := range [][]header{
		{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example"}},
		{{"Sec-Fetch-Site", "same-site"}, {"Origin", "https://other.example.com"}},
		{{"Sec-Fetch-Site", ""}, {"Origin", "https://evil.example"}},
		{{"Sec-Fetch-Site", ""}, {"Origin", "null"}},
	} {
		b.post("/account/payments/new", fields(page.token("create")), h...).want(403)
	}
	b.post("/account/payments/new", fields("")).want(403)
	b.post("/account/payments/new", fields(page.token("create")[1:]+"A")).want(403)
	b.post("/account/payments/new", fields(page.token("create")+"\n")).want(403) // a second spelling would count a second time
	theirs := s.browser().signIn(s.merchant("")).open("/account/payments/new").token("create")
	b.post("/account/payments/new", fields(theirs)).want(403)
	b.post("/account/payments/new", fields(page.token("create")), header{"Content-Type", "text/plain"}).want(415)
	b.post("/account/payments/new", url.Values{"form": {page.token("create")}, "x": {strings.Repeat("x", 70_000)}}).want(413)
	b.open("/account/signout").want(405)
	two := s.browser().signIn(s.merchant(`{"currencies":["RUB","USD"]}`))
	two.post("/account/payments/new", url.Values{
		"form": {two.open("/account/payments/new").token("create")}, "amount": {"1"}, "currency": {"XXX"},
	}).want(422).has(`aria-describedby="currency-error" aria-invalid="true"`, `<p class="error" id="currency-error">`)
	if n := len(s.events(m.project)); n != 0 {
		t.Fatalf("refused forms made %d events", n)
	}

	made := b.post("/account/payments/new", fields(page.token("create"))).want(303)
	path := "/account/" + strings.TrimPrefix(made.Header.Get("Location"), "../")
	b.open(path).want(200).has("₽1,500.50", "by hand", "The payment is created", `data-copy="http://pay.example.com/p/`)
	b.open(path).lacks("The payment is created")
	b.post("/account/payments/new", fields(page.token("create"))).leads(path).want(200)
	other := fields(page.token("create"))
	other.Set("amount", "7")
	b.post("/account/payments/new", other).want(422).has("already been sent with other content")
	if got := strings.Join(s.events(m.project), " "); got != "payment.created" {
		t.Errorf("events %s", got)
	}
}

// TestADoubleClickCountsOnce sends one form many times at once.
func TestADoubleClickCountsOnce(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	form := b.open("/account/payments/new").token("create")
	var all sync.WaitGroup
	answers := make([]*screen, 8)
	for i := range answers {
		all.Go(func() {
			answers[i] = b.post("/account/payments/new", url.Values{"form": {form}, "amount": {"10"}})
		})
	}
	all.Wait()
	for _, a := range answers {
		a.want(303)
		if to := a.Header.Get("Location"); to != answers[0].Header.Get("Location") {
			t.Errorf("one leads to %s, another to %s", answers[0].Header.Get("Location"), to)
		}
	}
	if got := strings.Join(s.events(m.project), " "); got != "payment.created" {
		t.Errorf("events %s", got)
	}
}

// TestADoubleClickShowsTheSecret sends each form that makes a secret many times at once,
// to two servers: all answers show the one secret, except those of a rotation. A minute later it
// is not shown again.
func TestADoubleClickShowsTheSecret(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	other := s.again(func(c *settings) { c.Metrics = nil })
	atOther := &browser{t, other, b.c}
	s.clock.advance(time.Second)
	own := s.browser().signIn(m)
	hook := own.addEndpoint("https://hooks.example.com/a")
	count := func() int {
		return len(s.project(m).Keys) + 10*len(s.project(m).Endpoints) + 100*s.project(m).Endpoints[0].Secret.Generation
	}
	for _, c := range []struct {
		path, hook string
		fields     url.Values
		makes      int
	}{
		{"/account/keys/new", "create-key", url.Values{"name": {"till"}, "scopes": {"read"}}, 1},
		{"/account/webhooks/new", "endpoint", url.Values{"url": {"https://hooks.example.com/b"}, "about": {""}, "kinds": {"payment.paid"}}, 10},
	} {
		c.fields.Set("form", b.open(c.path).token(c.hook))
		before := count()
		var all sync.WaitGroup
		answers := make([]*screen, 8)
		for i := range answers {
			all.Go(func() { answers[i] = []*browser{b, atOther}[i%2].post(c.path, c.fields) })
		}
		all.Wait()
		secret := answers[0].secret()
		for _, a := range answers {
			if a.secret() != secret {
				t.Errorf("%s: two secrets of one form", c.path)
			}
		}
		if made := count() - before; made != c.makes {
			t.Errorf("%s made %d, want %d", c.path, made, c.makes)
		}
		s.clock.advance(30 * time.Second)
		if b.post(c.path, c.fields).secret() != secret {
			t.Errorf("%s: another secret a little later", c.path)
		}
		own.post(c.path, c.fields).want(403).lacks(`class="secret"`) // of another session
		s.clock.advance(time.Minute)
		b.post(c.path, c.fields).want(409).has("already been sent").lacks(`class="secret"`)
		atOther.post(c.path, c.fields).want(409).lacks(`class="secret"`)
		if made := count() - before; made != c.makes {
			t.Errorf("%s made %d later, want %d", c.path, made, c.makes)
		}
	}
	// A rotation's secret is in the answer to the sending that rotated, and in no other,
	// whatever those ask for.
	rotate := url.Values{"form": {b.open("/account/webhooks/" + hook + "/rotate").token("rotate")}, "overlap": {"3600"}, "generation": {"1"}}
	before := count()
	var all sync.WaitGroup
	answers := make([]*screen, 8)
	for i := range answers {
		all.Go(func() { answers[i] = []*browser{b, atOther}[i%2].post("/account/webhooks/"+hook+"/rotate", rotate) })
	}
	all.Wait()
	shown := 0
	for _, a := range answers {
		if a.Code == http.StatusOK && a.secret() != "" {
			shown++
		} else {
			a.want(409).has("already been sent", "if you do not have it, make a new one").lacks(`class="secret"`)
		}
	}
	if made := count() - before; shown != 1 || made != 100 {
		t.Errorf("a rotation was shown %d times and made %d, want 1 and 100", shown, made)
	}
	for _, overlap := range []string{"0", "3600", "604800"} {
		rotate.Set("overlap", overlap)
		b.post("/account/webhooks/"+hook+"/rotate", rotate).want(409).lacks(`class="secret"`)
	}
	// A form that was opened before another one rotated the secret makes no other.
	page := own.open("/account/webhooks/" + hook + "/rotate")
	page.has(`name="generation" value="2"`)
	own.post("/account/webhooks/"+hook+"/rotate", url.Values{"form": {page.token("rotate")}, "overlap": {"3600"}, "generation": {"1"}}).want(409)
	own.post("/account/webhooks/"+hook+"/rotate", url.Values{"form": {page.token("rotate")}, "overlap": {"3600"}}).want(400)
}

// project is a merchant's project as it is.
func (s *server) project(m shop) projects.Project {
	s.t.Helper()
	p, ok, err := s.cfg.Views.Project(s.t.Context(), m.project)
	if err != nil || !ok {
		s.t.Fatal(ok, err)
	}
	return p
}

func TestWrongFieldsAreSaidAtTheField(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	b := s.browser().signIn(s.merchant(""))
	for _, c := range []struct{ amount, description, payload, want string }{
		{"", "", "", "amount-error"},
		{"x", "", "", "Enter an amount such as 1,500.50."},
		{"$5", "", "", "amount-error"},
		{"5 USD", "", "", "amount-error"},
		{"1.234", "", "", "At most two digits"},
		{"0", "", "", "At least 0.01"},
		{"10", strings.Repeat("x", 129), "", "description-error"},
		{"10", "", "{broken", "payload-error"},
		{"10", "", "[1]", "payload-error"},
		{"10", "", `{"a":1,"a":2}`, "payload-error"},
		{"10", "", `{"a":"` + strings.Repeat("x", 600) + `"}`, "At most 512 bytes"},
	} {
		page := b.open("/account/payments/new")
		in := url.Values{"form": {page.token("create")}, "amount": {c.amount}, "description": {c.description}, "payload": {c.payload}}
		again := b.post("/account/payments/new", in).want(422).has(c.want, `role="alert"`, `value="`+c.amount+`"`)
		if again.token("create") == page.token("create") {
			t.Error("the form has the token that was used")
		}
		again.has(`hreflang="ru"`, `data-hook="search"`, `data-hook="test-mode"`, `aria-current="page"`) // the header is whole
	}
}

// An amount is accepted in the form in which it is shown, in every language.
func TestAmountsAreEnteredAsTheyAreShown(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant(`{"currencies":["RUB","USD"]}`)
	b := s.browser().signIn(m)
	for entered, want := range map[string]string{
		"1\u00a0500,50\u00a0₽": "₽1,500.50", "₽1,500.50": "₽1,500.50", "1\u202f500,50": "₽1,500.50", "1 500.50 руб.": "₽1,500.50",
	} {
		form := b.open("/account/payments/new?lang=en").has("Such as 1,500.50.").token("create")
		made := b.post("/account/payments/new", url.Values{"form": {form}, "amount": {entered}}).want(303)
		b.open("/account/"+strings.TrimPrefix(made.Header.Get("Location"), "../")).has(want, "Test mode")
	}
	form := b.open("/account/payments/new").token("create")
	b.post("/account/payments/new", url.Values{"form": {form}, "amount": {"$7"}, "currency": {"RUB"}}).want(422).has("another currency: RUB is chosen")
	form = b.open("/account/payments/new").token("create")
	b.post("/account/payments/new", url.Values{"form": {form}, "amount": {"$7"}, "currency": {"USD"}}).want(303)
	b.open("/account/payments?q=").has("$7.00")
}

// Test mode has one name, on every page, also before sign-in.
func TestTestModeIsShown(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	for lang, name := range map[string]string{"en": "Test mode", "ru": "Тестовый режим"} {
		stranger, b := s.browser(), s.browser().signIn(s.merchant(""))
		stranger.open("/account/signin?lang=" + lang).has(name)
		for _, path := range []string{"", "payments", "settings", "keys", "nothing"} {
			b.open("/account/" + path + "?lang=" + lang).has(name)
		}
	}
}

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>`

func TestHostileTextStaysText(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10","description":"<script>alert(1)</script>\"'><img src=x onerror=alert(2)>",`+
		`"payload":{"n":12345678901234567890,"x":"</pre><script>alert(3)</script>","e":"\u0416"}}`).want(201, "").object()
	for _, path := range []string{
		"/account/payments", "/account/payments/" + p.ID, "/account/payments/" + p.ID + "/refund",
		"/account/payments?q=" + url.QueryEscape(hostile), "/account/payments?amount_from=" + url.QueryEscape(hostile),
		"/account/signin?next=" + url.QueryEscape(hostile), "/account/" + url.PathEscape(hostile),
	} {
		b.open(path).lacks("<script>alert", "<img src=x")
	}
	b.post("/account/signin", url.Values{"project": {hostile}, "key": {"x"}}).lacks("<script>alert", "<img src=x")
	b.open("/account/payments/"+p.ID).want(200).has(
		"&lt;script&gt;alert(1)&lt;/script&gt;", "12345678901234567890", `\u0416`, "&lt;/pre&gt;&lt;script&gt;")
}

func TestRefundingInTheAccount(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10","description":"tea"}`).want(201, "").object()
	id, _ := domain.ParseID(p.ID)
	path := "/account/payments/" + p.ID
	b.open(path).want(200).has("Only a paid payment").lacks(path[9:] + `/refund"`)
	b.open(path + "/refund").has("cannot be refunded").lacks("<button class=\"danger\"")
	s.settle(m, id, domain.OutcomePaid)

	asked := b.open(path+"/refund").want(200).has("Refund ₽10.00?", "cannot be undone")
	two := b.open(path + "/refund")
	b.post(path+"/refund", url.Values{"form": {asked.token("refund")}}).leads(path).has("The refund is requested", `data-status="pending"`)
	b.post(path+"/refund", url.Values{"form": {asked.token("refund")}}).leads(path).want(200)
	// Another window was opened before the change: the rules of the API refuse its
	// form.
	b.post(path+"/refund", url.Values{"form": {two.token("refund")}}).leads(path).has("already has a refund")
	if got := strings.Join(s.events(m.project), " "); strings.Count(got, "refund.created") != 1 {
		t.Error(got)
	}

	other := s.browser().signIn(s.merchant(""))
	other.open(path).want(404).has("no such payment")
	foreign := other.open("/account/session").token("signout")
	other.post(path+"/refund", url.Values{"form": {foreign}}).want(404)
	reader := s.merchant("", "read")
	r := s.browser().signIn(reader)
	r.open("/account/payments").lacks("payments/new")
	r.post("/account/payments/new", url.Values{"form": {r.open("/account/session").token("signout")}, "amount": {"1"}}).want(403).has("does not have this scope")
}

// settle routes a payment and plays the provider.
func (s *server) settle(m shop, id domain.ID, outcome domain.Outcome) {
	s.t.Helper()
	if _, err := s.decide(s.t.Context(), m.project, id, domain.AssignRoute{Table: domain.RoutingTable{{
		Route: "sandbox", Currency: domain.DefaultCurrency, Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1,
	}}}); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.decide(s.t.Context(), m.project, id, domain.ApplySignal{Signal: domain.Signal{
		Route: "sandbox", Outcome: outcome, Reference: "ref-" + id.String(), Amount: 1000, Currency: domain.DefaultCurrency,
		StartedAt: domain.InstantOf(s.clock.Now()),
	}}); err != nil {
		s.t.Fatal(err)
	}
}

func TestTheProviderIsPlayedInTheSandbox(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10"}`).want(201, "").object()
	m.route(p.ID)
	path := "/account/payments/" + p.ID
	page := b.open(path).want(200).has("There is no real provider")
	late := page.token("settle-failed")
	b.post(path+"/settle", url.Values{"form": {page.token("settle-paid")}, "outcome": {"paid"}}).leads(path).
		has(`data-status="paid"`, "answer is recorded").lacks("There is no real provider")
	b.post(path+"/settle", url.Values{"form": {late}, "outcome": {"failed"}}).leads(path).has(`data-status="paid"`, "status is final")
	r := m.refund(p.ID).want(201, "").object()
	form := b.open(path).has("There is no real provider").token("settle-succeeded")
	b.post(path+"/settle", url.Values{"form": {form}, "outcome": {"succeeded"}, "refund": {r.ID}}).leads(path).
		has(`data-status="succeeded"`, "Refunded").lacks(path[9:] + `/refund"`)
	form = b.open(path).has("There is no real provider").token("settle-returned")
	b.post(path+"/settle", url.Values{"form": {form}, "outcome": {"returned"}, "refund": {r.ID}}).leads(path).
		has(`data-status="succeeded"`, "Refund came back", "the money is yours again", path[9:]+`/refund"`).lacks("There is no real provider")
	b.open("/account/payments?refund=returned").has(p.ID, "Refund came back")
	b.open("/account/refunds").has(r.ID, "Refund came back")
	b.open("/account/").has("with ₽10.00 of refunds or disputes that came back")
	live := s.again(func(c *settings) { c.Sandbox, c.Metrics = nil, nil })
	q := m.pay(`{"amount":"10"}`).want(201, "").object()
	other := live.browser().signIn(m)
	form = other.open("/account/payments/" + q.ID).want(200).lacks("There is no real provider").token("signout")
	other.post("/account/payments/"+q.ID+"/settle", url.Values{"form": {form}, "outcome": {"paid"}}).want(404)
}

func TestAttemptsAndReturnsAreShown(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10"}`).want(201, "").object()
	m.route(p.ID)
	id, _ := domain.ParseID(p.ID)
	do := func(c domain.PaymentCommand) {
		t.Helper()
		if _, err := s.decide(t.Context(), m.project, id, c); err != nil {
			t.Fatal(err)
		}
	}
	do(domain.BeginAttempt{At: domain.InstantOf(s.cfg.Now()), Language: "en", Merchant: "Tea shop"})
	do(domain.OfferAttempt{Number: 1, Reference: "prv-1", HandOff: domain.HandOffRedirect})
	do(domain.FailAttempt{Number: 1, Reason: "cancelled"})
	do(domain.BeginAttempt{At: domain.InstantOf(s.cfg.Now()), Language: "en", Merchant: "Tea shop"})
	do(domain.FailAttempt{Number: 2, Reason: "do_not_honor"})
	b.open("/account").want(200).has("Attempts to pay", `>sandbox</td>`, `data-label="Last 24 hours">2 <small>0.0%</small>`, `data-label="Last 30 days">2 <small>0.0%</small>`)
	m.post("/v1/sandbox/payments/"+p.ID, `{"outcome":"failed"}`).want(200, "")
	m.post("/v1/sandbox/payments/"+p.ID, `{"outcome":"paid"}`).want(409, domain.FinalStatus)
	at, _, err := s.cfg.Views.Payment(t.Context(), id)
	if err != nil || len(at.Late) != 1 {
		t.Fatal(at.Late, err)
	}
	back := s.cfg.IDs.Next()
	do(domain.CreateReturn{At: domain.InstantOf(s.cfg.Now()), ReturnID: back, Reference: at.Late[0].Reference})
	b.open("/account/payments/"+p.ID).want(200).has(
		"The customer pressed Pay", "Attempt 1", "sent to the provider", "prv-1", "The attempt to pay failed", "<p>Cancelled</p>",
		"Attempt 2", "<p>do_not_honor</p>", "Return of late funds requested", back.String(), at.Late[0].Reference,
	)
}

func TestNotificationsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	hook := m.newEndpoint()
	b := s.browser().signIn(m)
	p := m.pay(`{"amount":"10"}`).want(201, "").object()
	id, _ := domain.ParseID(p.ID)
	path := "/account/payments/" + p.ID
	b.open(path).has("no endpoint is subscribed")
	old := s.hooks.add(domain.DeliveryObject{EndpointID: hook, Type: domain.KindPaymentCreated, PaymentID: &id, State: domain.DeliverySuperseded})
	failed := s.hooks.add(domain.DeliveryObject{
		EndpointID: hook, Type: domain.KindPaymentPaid, PaymentID: &id, State: domain.DeliveryGivenUp,
		Attempts: []domain.AttemptObject{{Status: 500, Error: "answered", DurationMS: 12, Answer: "<b>no</b>"}},
	})
	s.hooks.mu.Lock()
	s.hooks.newest[id] = failed.EventID
	s.hooks.mu.Unlock()
	b.open(path).want(200).has("Refused with 500", "1 attempt", "&lt;b&gt;no&lt;/b&gt;", `data-state="given_up"`)
	again := func(event domain.ID) *screen {
		form := url.Values{"form": {b.open(path).token("resend")}, "back": {strings.TrimPrefix(path, "/account/")}}
		return b.post("/account/webhooks/"+hook+"/deliveries/"+event.String()+"/resend", form)
	}
	again(failed.EventID).leads(path).has("will be sent again", `data-state="pending"`)
	again(old.EventID).leads(path).has("never goes backward")
	again(domain.ID{1}).leads(path).has("no such notification")

	// The button is only where it can succeed, and no link leads to an endpoint that is gone.
	gone := m.newEndpoint()
	const button = `data-hook="resend"`
	for _, endpoint := range []string{hook, gone} {
		s.hooks.add(domain.DeliveryObject{EndpointID: endpoint, Type: domain.KindPaymentFailed, PaymentID: &id, State: domain.DeliveryCancelled})
		s.hooks.add(domain.DeliveryObject{EndpointID: endpoint, Type: domain.KindPaymentExpired, PaymentID: &id, State: domain.DeliveryDelivered})
	}
	shows := func(buttons, links int) {
		t.Helper()
		text := b.open(path).Text
		if n := strings.Count(text, button); n != buttons {
			t.Errorf("%d buttons, want %d", n, buttons)
		}
		if n := strings.Count(text, "webhooks/"+gone); n != links {
			t.Errorf("%d addresses of the endpoint, want %d", n, links)
		}
	}
	shows(3, 5) // the superseded one, and one delivered to each; two links a row and the form
	m.post("/v1/webhook-endpoints/"+hook+"/disable", "").want(200, "")
	shows(1, 5)
	m.send("DELETE", "/v1/webhook-endpoints/"+gone, nil).want(204, "")
	shows(0, 0)
}

// What was given up is shown, however many were delivered since: the sender looks at so many for a page.
func TestOldDeliveriesOfAStateAreShown(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m := s.merchant("")
	hook := m.newEndpoint()
	of, _ := domain.ParseID(m.pay(`{"amount":"10"}`).want(201, "").object().ID)
	lost := s.hooks.add(domain.DeliveryObject{EndpointID: hook, Type: domain.KindPaymentPaid, PaymentID: &of, State: domain.DeliveryGivenUp})
	for range 9 {
		s.hooks.add(domain.DeliveryObject{EndpointID: hook, Type: domain.KindPaymentPaid, PaymentID: &of, State: domain.DeliveryDelivered})
	}
	s.hooks.look = 4
	b := s.browser().signIn(m)
	b.open("/account/webhooks/"+hook+"?state=given_up").want(200).has(lost.EventID.String()).lacks("Nothing matches", `rel="next"`)
	b.open("/account/webhooks/" + hook + "?state=parked").want(200).has("Nothing matches")
}
