package account

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/httpapi/checkout"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/ui"
	"payledger/httpapi/wire"
	"payledger/projections"
)

// front is the account of a project with one key.
type front struct {
	t       *testing.T
	api     *merchant.API
	project string
	key     wire.Key
	handler *handler
	master  [32]byte
	server  http.Handler
	cookie  string            // of the session
	others  map[string]string // other cookies
}

func newFront(t *testing.T) *front {
	t.Helper()
	f := &front{t: t, project: "prj_01M7W78FJBM8T4R7B5N0C1D2E3", api: newAPI(t), master: [32]byte{1}, others: make(map[string]string)}
	if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.RegisterProject{Name: "Tea", Settings: domain.DefaultSettings()}, true); err != nil {
		t.Fatal(err)
	}
	var err error
	if _, f.key, err = f.api.NewKey(t.Context(), f.project, eventstore.Cause{}, "", []projects.Scope{projects.Read}); err != nil {
		t.Fatal(err)
	}
	f.start()
	return f
}

// newAPI makes the operations over an empty log in memory.
func newAPI(t *testing.T) *merchant.API {
	t.Helper()
	links, err := checkout.NewLinks(map[int][32]byte{1: {1}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	ledger := eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()}
	views, err := projections.Open(t.Context(), projections.Config{
		Path: filepath.Join(t.TempDir(), "projections.db"), Store: ledger.Store, Codec: ledger.Codec, LogID: domain.ID{1},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var following sync.WaitGroup
	following.Go(func() { _ = views.Run(ctx) })
	t.Cleanup(func() {
		stop()
		following.Wait()
		_ = views.Close()
		_ = ledger.Store.Close()
	})
	api, err := merchant.New(merchant.Config{
		Ledger: ledger, Views: views, IDs: domain.NewIDs(time.Now, rand.Reader, domain.ID{}), Links: links, PublicURL: "http://pay.example.com",
		KeyTimes: untimed{},
	})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// untimed knows no times of keys.
type untimed struct{}

func (untimed) Use(string, time.Time)                 {}
func (untimed) LastUse(string) (domain.Instant, bool) { return 0, false }

// start makes the handler, as the start of a program does.
func (f *front) start() {
	f.t.Helper()
	keys, err := NewKeys(f.master)
	if err != nil {
		f.t.Fatal(err)
	}
	f.handler, err = newHandler(f.api, keys)
	if err != nil {
		f.t.Fatal(err)
	}
	e := edge.New(edge.Config{Now: time.Now, Entropy: rand.Reader, Log: zerolog.Nop()})
	pages := edge.Pages("account", f.handler.serve)
	f.server = e.Wrap(func(x *edge.Exchange) { pages.ServeHTTP(x, x.Request) })
}

// credentials are those of the key.
func (f *front) credentials() url.Values {
	return url.Values{"project": {f.project}, "key": {f.key.APIKey}}
}

func (f *front) do(r *http.Request) *httptest.ResponseRecorder {
	if f.cookie != "" {
		r.AddCookie(&http.Cookie{Name: "payledger_account", Value: f.cookie})
	}
	for name, value := range f.others {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	f.server.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.Name == sessionCookie {
			f.cookie = c.Value
		} else {
			f.others[c.Name] = c.Value
		}
	}
	return w
}

func (f *front) get(path string) *httptest.ResponseRecorder {
	return f.do(httptest.NewRequest(http.MethodGet, "http://pay.example.com/account/"+path, nil))
}

func (f *front) post(path string, fields url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://pay.example.com/account/"+path, strings.NewReader(fields.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://pay.example.com")
	return f.do(r)
}

func (f *front) signIn() {
	f.t.Helper()
	if w := f.post("signin", f.credentials()); w.Code != http.StatusSeeOther || f.cookie == "" {
		f.t.Fatalf("signing in: %d %s", w.Code, w.Body)
	}
}

// in reports whether the session is alive.
func (f *front) in() bool {
	f.t.Helper()
	switch w := f.get("session"); w.Code {
	case http.StatusOK:
		return true
	case http.StatusSeeOther:
		return false
	default:
		f.t.Fatalf("answer %d %s", w.Code, w.Body)
		return false
	}
}

func TestLimitsOfASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		const idleLimit, lifeLimit = 30 * time.Minute, 12 * time.Hour
		f.signIn()
		time.Sleep(idleLimit - touchEvery - time.Second)
		if !f.in() {
			t.Error("the session ended before it was idle for long")
		}
		time.Sleep(idleLimit + time.Second)
		if f.in() {
			t.Error("an idle session goes on")
		}
		f.cookie = ""
		f.signIn()
		began := time.Now()
		for time.Since(began) < lifeLimit-20*time.Minute {
			time.Sleep(20 * time.Minute)
			if !f.in() {
				t.Fatalf("a session in use ended after %v", time.Since(began))
			}
		}
		time.Sleep(20*time.Minute + time.Second)
		if f.in() {
			t.Error("a session goes on for ever while it is used")
		}
	})
}

// A request of a script does not renew the session: an open page makes such requests by itself.
func TestAScriptDoesNotKeepASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		for mode, lives := range map[string]bool{"cors": false, "same-origin": false, "X-Requested-With": false, "navigate": true, "": true} {
			f.cookie = ""
			f.signIn()
			for range 40 {
				time.Sleep(time.Minute)
				r := httptest.NewRequest(http.MethodGet, "http://pay.example.com/account/events", nil)
				switch mode {
				case "":
				case "X-Requested-With": // on plain http
					r.Header.Set(mode, "fetch")
				default:
					r.Header.Set("Sec-Fetch-Mode", mode)
				}
				f.do(r)
			}
			if f.in() != lives {
				t.Errorf("Sec-Fetch-Mode %q: after 40 minutes the session lives: %t", mode, !lives)
			}
		}
	})
}

// A project's own limits and its signing out end the sessions that have begun.
func TestLimitsChangeUnderASession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		change := func(idle, most int) {
			t.Helper()
			settings := domain.DefaultSettings()
			settings.SessionIdleSeconds, settings.SessionMaxSeconds = &idle, &most
			if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.ChangeProject{Name: "Tea", Settings: settings}, false); err != nil {
				t.Fatal(err)
			}
		}
		f.signIn()
		change(7200, 14400)
		time.Sleep(100 * time.Minute)
		if !f.in() {
			t.Error("the session ended before the new limit without use")
		}
		time.Sleep(21 * time.Minute)
		if change(1200, 14400); f.in() {
			t.Error("the session outlives a limit without use that became shorter")
		}
		f.signIn()
		time.Sleep(15 * time.Minute)
		if !f.in() {
			t.Error("the session ended before its limits")
		}
		if change(1200, 600); f.in() {
			t.Error("the session outlives a limit that became shorter")
		}
		change(1200, 14400)
		f.signIn()
		time.Sleep(time.Second)
		if _, err := f.api.SignOutProject(t.Context(), f.project, eventstore.Cause{}); err != nil {
			t.Fatal(err)
		}
		if f.in() {
			t.Error("the session outlives the signing out of its project")
		}
		time.Sleep(time.Second)
		f.signIn()
		if !f.in() {
			t.Error("nobody can sign in any more")
		}
	})
}

func TestASessionSurvivesARestartAndEndsWithItsKey(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	f.start()
	if !f.in() {
		t.Error("the session did not survive a restart")
	}
	if _, err := f.api.ChangeProject(t.Context(), f.project, eventstore.Cause{}, projects.RevokeKey{KeyID: f.key.KeyID}, false); err != nil {
		t.Fatal(err)
	}
	if f.in() {
		t.Error("the session outlives its key")
	}
	if f.cookie != "" {
		t.Error("the browser keeps the cookie of a session that is over")
	}
}

// TestCookies sends cookies that were changed, made with other keys or of another kind.
func TestCookies(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	good := f.cookie
	if n := len("__Host-payledger_account=" + good); n >= 300 {
		t.Errorf("the cookie has %d bytes", n)
	}
	raw, err := base64.URLEncoding.DecodeString(good)
	if err != nil || strings.Contains(string(raw), f.project) {
		t.Errorf("the cookie shows what it holds: %q, %v", raw, err)
	}
	changed := func(at int) string {
		b := bytes.Clone(raw)
		b[at] ^= 1
		return base64.URLEncoding.EncodeToString(b)
	}
	forged := func(master [32]byte, name, content string) string {
		k, err := NewKeys(master)
		if err != nil {
			t.Fatal(err)
		}
		value, err := k.cookies.Encode(name, []byte(content))
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	whole := fmt.Sprintf("%s %s %[3]d %[3]d 0", f.project, f.key.KeyID, time.Now().UnixMilli())
	for _, c := range []struct {
		name, cookie string
		in           bool
	}{
		{"as it was made", good, true},
		{"the same content, made again", forged(f.master, sessionCookie, whole), true},
		{"chosen by somebody else", "chosen-by-somebody-else", false},
		{"with another time", changed(0), false},
		{"with another content", changed(20), false},
		{"with another signature", changed(len(raw) - 1), false},
		{"cut off", good[:len(good)-4], false},
		{"longer", good + "AAAA", false},
		{"of another installation", forged([32]byte{9}, sessionCookie, whole), false},
		{"another cookie of ours", forged(f.master, noticeCookie, whole), false},
		{"of no session", forged(f.master, sessionCookie, "0"), false},
		{"without the count of sign-outs", forged(f.master, sessionCookie, strings.TrimSuffix(whole, " 0")), false},
		{"of a time when its key had been signed out", forged(f.master, sessionCookie, strings.TrimSuffix(whole, "0")+"1"), false},
		{"of nothing", forged(f.master, sessionCookie, ""), false},
		{"of another project", forged(f.master, sessionCookie, strings.Replace(whole, f.project, "prj_2", 1)), false},
		{"of another key", forged(f.master, sessionCookie, strings.Replace(whole, f.key.KeyID, "key_2", 1)), false},
	} {
		if f.cookie = c.cookie; f.in() != c.in {
			t.Errorf("%s: signed in %v, want %v", c.name, !c.in, c.in)
		}
	}
}

// A cookie and a form of an older master key are worth nothing: that key may be in wrong
// hands.
func TestCookiesFollowTheMasterKey(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	old, form := f.cookie, f.form("session")
	f.master = [32]byte{2}
	f.start()
	if f.in() {
		t.Error("the session of the older master key goes on")
	}
	f.signIn()
	if !f.in() {
		t.Error("nobody can sign in with the new master key")
	}
	if w := f.post("signout", url.Values{formField: {form}}); w.Code != http.StatusForbidden {
		t.Errorf("a form of the older master key: %d", w.Code)
	}
	if f.cookie = old; f.in() {
		t.Error("the cookie of the older master key is accepted again")
	}
}

// The answer to a request from before the signing out may come after that, with a cookie
// that says that the session is in use.
func TestALateAnswerDoesNotSignInAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		f.signIn()
		before := f.cookie
		time.Sleep(2 * touchEvery)
		if f.get("session"); f.cookie == before {
			t.Fatal("the session was used, and its cookie is the same")
		}
		late := f.cookie
		form := f.form("session")
		if w := f.post("signout", url.Values{formField: {form}}); w.Code != http.StatusSeeOther || f.cookie != "" {
			t.Fatalf("signing out: %d, cookie %q", w.Code, f.cookie)
		}
		if f.cookie = late; f.in() {
			t.Error("a late answer has signed the browser in again")
		}
		f.cookie = ""
		if f.signIn(); !f.in() { // in the same millisecond
			t.Error("nobody can sign in again")
		}
		if f.cookie = late; f.in() {
			t.Error("the session from before goes on")
		}
	})
}

// What a page was to say in one session is not said in the next.
func TestANoticeEndsWithItsSession(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	notice, err := f.handler.Keys.cookies.Encode(noticeCookie, []byte("good\nThe money is back."))
	if err != nil {
		t.Fatal(err)
	}
	f.others[noticeCookie] = notice
	if page := f.get("session").Body.String(); !strings.Contains(page, "The money is back.") {
		t.Errorf("no notice:\n%s", page)
	}
	if page := f.get("session").Body.String(); strings.Contains(page, "The money is back.") || f.others[noticeCookie] != "" {
		t.Errorf("the notice comes twice:\n%s", page)
	}
	f.others[noticeCookie] = notice
	f.signIn()
	if page := f.get("session").Body.String(); strings.Contains(page, "The money is back.") {
		t.Errorf("the notice of another session:\n%s", page)
	}
}

// form is the token of a form on a page.
func (f *front) form(path string) string {
	f.t.Helper()
	_, token, ok := strings.Cut(f.get(path).Body.String(), `name="form" value="`)
	token, _, closed := strings.Cut(token, `"`)
	if !ok || !closed {
		f.t.Fatalf("%s has no form", path)
	}
	return token
}

// A copied cookie ends by signing out everywhere, with the key that it is of alone.
func TestSigningOutEverywhereEndsACopiedCookie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		f.signIn()
		copied, one := f.cookie, f.key
		var err error
		if _, f.key, err = f.api.NewKey(t.Context(), f.project, eventstore.Cause{}, "", []projects.Scope{projects.Read}); err != nil {
			t.Fatal(err)
		}
		f.cookie = ""
		f.signIn()
		other := f.cookie

		f.cookie = copied
		if w := f.post("signout", url.Values{formField: {f.form("session")}}); w.Code != http.StatusSeeOther || f.cookie != "" {
			t.Errorf("signing out: %d, cookie %q", w.Code, f.cookie)
		}
		f.cookie = copied
		clear(f.others) // in another browser
		if w := f.post("signout-everywhere", url.Values{formField: {f.form("session")}}); w.Code != http.StatusSeeOther || f.cookie != "" {
			t.Errorf("signing out everywhere: %d, cookie %q", w.Code, f.cookie)
		}
		if f.cookie = copied; f.in() {
			t.Error("the copied cookie outlives the signing out everywhere")
		}
		if f.cookie = other; !f.in() {
			t.Error("signing out everywhere ended the session of another key")
		}
		f.key, f.cookie = one, ""
		if f.signIn(); !f.in() {
			t.Error("nobody can sign in with the key any more")
		}
	})
}

// A request in use sends a cookie once a minute, and not with every answer.
func TestCookiesAreSentNowAndThen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t)
		f.signIn()
		sent := 0
		for range 60 {
			time.Sleep(5 * time.Second)
			if f.get("session").Header().Get("Set-Cookie") != "" {
				sent++
			}
		}
		if sent != 5 {
			t.Errorf("%d cookies in five minutes", sent)
		}
	})
}

func TestSigningInChangesTheCookie(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.cookie = "chosen-by-somebody-else"
	f.signIn()
	first := f.cookie
	if first == "chosen-by-somebody-else" {
		t.Error("the cookie is the one that was sent")
	}
	if f.post("signin", f.credentials()); f.cookie == first {
		t.Error("signing in again kept the cookie")
	}
}

func TestNextIsOurs(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	v := &visit{handler: f.handler}
	for path, want := range map[string]bool{
		"payments": true, "payments?q=a&b=//c": true, "payments/01": true, "session": true, "": v.has(""),
		"signin": false, "signout": false, "//evil": false, "https://evil": false, "/payments": false, "../x": false,
		"payments\r\nX: y": false, `\evil`: false, "javascript:alert(1)": false,
	} {
		if got := v.ours(path); got != want {
			t.Errorf("ours(%q) = %v", path, got)
		}
	}
}

// What a form makes is known by its token, at every server with the same master key, and
// by no part of another purpose.
func TestWhatAFormMakes(t *testing.T) {
	t.Parallel()
	f := newFront(t)
	f.signIn()
	sent := func(token string) *visit {
		t.Helper()
		var s session
		if _, err := fmt.Sscanf(f.content(), sessionText, &s.Project, &s.KeyID, &s.Since, &s.seen, &s.SignOuts); err != nil {
			t.Fatal(err)
		}
		v := &visit{handler: f.handler, session: s, token: token}
		if !ui.ValidToken(token, v.formMAC()) {
			t.Fatal("the form's token is not valid")
		}
		return v
	}
	one, two := f.form("session"), f.form("session")
	v := sent(one)
	key, random := *v.IdempotencyKey(), v.Random("key")
	f.start()
	if v := sent(one); *v.IdempotencyKey() != key || v.Random("key") != random {
		t.Error("a form that is sent to another server makes something else")
	}
	if v.Random("endpoint") == random || sent(two).Random("key") == random || *sent(two).IdempotencyKey() == key {
		t.Error("two forms make the same, or two purposes")
	}
}

// content is what the cookie holds.
func (f *front) content() string {
	f.t.Helper()
	var content []byte
	if err := f.handler.Keys.cookies.Decode(sessionCookie, f.cookie, &content); err != nil {
		f.t.Fatal(err)
	}
	return string(content)
}
