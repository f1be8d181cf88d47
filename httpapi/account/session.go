package account

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/go-json-experiment/json"

	"payledger/domain"
)

// A session ends after idleLimit without a request, give or take touchEvery,
// and after lifeLimit whatever happens.
const (
	idleLimit = 30 * time.Minute
	lifeLimit = 12 * time.Hour
)

// What a session holds.
const (
	projectValue    = "project"
	keyValue        = "key"
	generationValue = "generation"
	formsValue      = "forms" // key of the tokens of forms
	noticeValue     = "notice"
	sinceValue      = "since"
)

// Who is whom a session acts for, as it is now.
type Who struct {
	ProjectID   string          `json:"project_id"`
	ProjectName string          `json:"project_name"`
	KeyID       string          `json:"key_id"`
	Scopes      []domain.Scope  `json:"scopes"`
	Settings    domain.Settings `json:"settings"`
	Sandbox     bool            `json:"sandbox"` // payments can be settled by hand
}

// May reports whether the session's key has a scope.
func (w Who) May(s string) bool { return slices.Contains(w.Scopes, domain.Scope(s)) }

// MayAll reports whether the session's key has all of the scopes, as it must
// to revoke a key that has them.
func (w Who) MayAll(scopes []domain.Scope) bool {
	return !slices.ContainsFunc(scopes, func(s domain.Scope) bool { return !w.May(string(s)) })
}

func newSessions(f *File, secure bool) *scs.SessionManager {
	// scs.New would begin with a store of its own, and a goroutine that tidies
	// it for ever.
	s := &scs.SessionManager{
		Store: sessionStore{f}, Codec: valuesCodec{}, HashTokenInStore: true, IdleTimeout: idleLimit, Lifetime: lifeLimit,
		Cookie: scs.SessionCookie{
			Name: "payledger_account", Path: "/", HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
		},
	}
	if secure {
		s.Cookie.Name = "__Host-" + s.Cookie.Name // no other host and no plain http can set it
	}
	return s
}

// valuesCodec writes the same values as the same bytes, so that nothing is
// written that is there already.
type valuesCodec struct{}

type storedValues struct {
	Deadline time.Time         `json:"deadline"`
	Values   map[string]string `json:"values"`
}

// Encode implements scs.Codec. Values are strings.
func (valuesCodec) Encode(deadline time.Time, values map[string]any) ([]byte, error) {
	out := storedValues{Deadline: deadline, Values: make(map[string]string, len(values))}
	for name, v := range values {
		text, ok := v.(string)
		if !ok {
			return nil, errors.New("account: a value of a session is no string: " + name)
		}
		out.Values[name] = text
	}
	return json.Marshal(out, json.Deterministic(true))
}

// Decode implements scs.Codec.
func (valuesCodec) Decode(b []byte) (time.Time, map[string]any, error) {
	var in storedValues
	if err := json.Unmarshal(b, &in); err != nil {
		return time.Time{}, nil, err
	}
	values := make(map[string]any, len(in.Values))
	for name, text := range in.Values {
		values[name] = text
	}
	return in.Deadline, values, nil
}

// loadSession finds the session of a request and whom it acts for. One that
// is over is none.
func (v *visit) loadSession() error {
	token := ""
	if c, err := v.r.Cookie(v.sessions.Cookie.Name); err == nil {
		token = c.Value
	}
	ctx, err := v.sessions.Load(v.r.Context(), token)
	if err != nil {
		return err
	}
	v.r = v.r.WithContext(ctx)
	s := Session{Project: v.sessions.GetString(ctx, projectValue), KeyID: v.sessions.GetString(ctx, keyValue)}
	if s.Project == "" {
		v.ended = token != ""
		return nil
	}
	generation, err := v.File.generation(s)
	if err != nil {
		return err
	}
	if v.sessions.GetString(ctx, generationValue) != strconv.FormatUint(generation, 10) {
		v.endSession()
		return nil
	}
	v.session = s
	v.who, err = get[Who](v, "/account-api/session", nil)
	if p, ok := errors.AsType[*Problem](err); ok && (p.Status == http.StatusUnauthorized || p.Code == string(domain.ProjectDisabledCode)) {
		v.endSession()
		return nil
	}
	return err
}

// saveSession writes the session, which begins to be idle anew. It comes
// before the answer.
func (v *visit) saveSession() error {
	if !v.signedIn() {
		return nil
	}
	_, _, err := v.sessions.Commit(v.r.Context())
	return err
}

// endSession forgets the session, here and in the browser.
func (v *visit) endSession() {
	if err := v.sessions.Destroy(v.r.Context()); err != nil {
		v.log().Warn().Err(err).Msg("a session of the account could not be deleted")
	}
	v.sessions.WriteSessionCookie(v.r.Context(), v.w, "", time.Time{})
	v.w.Header().Set("Cache-Control", "no-store") // scs adds to it
	v.session, v.who, v.ended = Session{}, Who{}, true
}

// startSession makes the session of somebody who has signed in.
func (v *visit) startSession(s Session) error {
	generation, err := v.File.generation(s)
	if err != nil {
		return err
	}
	if err := v.File.clean(v.Now()); err != nil {
		return err
	}
	ctx := v.r.Context()
	if err := v.sessions.RenewToken(ctx); err != nil {
		return err
	}
	v.sessions.Put(ctx, projectValue, s.Project)
	v.sessions.Put(ctx, keyValue, s.KeyID)
	v.sessions.Put(ctx, generationValue, strconv.FormatUint(generation, 10))
	v.sessions.Put(ctx, formsValue, rand.Text())
	v.sessions.Put(ctx, sinceValue, domain.InstantOf(v.Now()).String())
	token, end, err := v.sessions.Commit(ctx)
	if err != nil {
		return err
	}
	v.sessions.WriteSessionCookie(ctx, v.w, token, end)
	v.w.Header().Set("Cache-Control", "no-store") // scs adds to it
	v.session = s
	return nil
}

// putNotice keeps something to be said on the next page.
func (v *visit) putNotice(tone, text string) {
	v.sessions.Put(v.r.Context(), noticeValue, tone+"\n"+text)
}

func (v *visit) popNotice() *notice {
	kept := v.sessions.PopString(v.r.Context(), noticeValue)
	if tone, text, ok := strings.Cut(kept, "\n"); ok {
		return &notice{Tone: tone, Text: text}
	}
	return nil
}

// toSignIn leads somebody who is not signed in to where that can be done, and
// from there back.
func (v *visit) toSignIn() error {
	q := url.Values{}
	if v.r.Method == http.MethodGet || v.r.Method == http.MethodHead {
		next := strings.TrimPrefix(strings.TrimPrefix(v.r.URL.EscapedPath(), Path), "/")
		if v.r.URL.RawQuery != "" {
			next += "?" + v.r.URL.RawQuery
		}
		if next != "" && v.ours(next) {
			q.Set("next", next)
		}
	}
	if v.ended || v.r.Method == http.MethodPost {
		q.Set("why", "ended")
	}
	to := "signin"
	if len(q) > 0 {
		to += "?" + q.Encode()
	}
	v.w.Header().Set("Location", v.to(to))
	v.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// ours reports whether a path, with or without a query, is that of a page of
// the account that somebody can be led to.
func (v *visit) ours(path string) bool {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || strings.ContainsAny(path, "\\\r\n") {
		return false
	}
	return slices.ContainsFunc(v.table, func(p page) bool {
		_, ok := match(p.path, u.EscapedPath())
		return ok && p.method == http.MethodGet && !p.open
	})
}
