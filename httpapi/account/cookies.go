package account

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/gorilla/securecookie"
)

// label separates the keys derived here from others of the master key. It is also the version of
// the cookies' content.
const label = "payledger account 1"

// Keys authenticate what browsers keep for the account: cookies, which are encrypted
// too, and tokens of forms. All servers with the same master key accept what one of
// them made. Keys are immutable and safe for concurrent use.
type Keys struct {
	cookies      *securecookie.SecureCookie
	form, random []byte // HMAC keys: of the tokens of forms, and of values derived from a token
}

// NewKeys derives the keys from the newest master key. None are derived from older ones: with a
// leaked master key anyone could forge cookies.
func NewKeys(master [32]byte) (*Keys, error) {
	b, err := hkdf.Key(sha256.New, master[:], nil, label, 4*sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("the account: %w", err)
	}
	return &Keys{
		// Without a maximum age: the project's limits say how long a session lasts.
		cookies: securecookie.New(b[:32], b[32:64]).MaxAge(0).SetSerializer(securecookie.NopEncoder{}),
		form:    b[64:96], random: b[96:],
	}, nil
}

const (
	sessionCookie = "payledger_account"
	noticeCookie  = "payledger_notice"
	outCookie     = "payledger_signed_out" // when this browser was signed out, as a session's Since
)

// noticeAge is how many seconds a notice waits for the next page.
const noticeAge = 60

// cookieName is the full name of a cookie. With the prefix, no other host and no
// plain http can set it.
func (h *handler) cookieName(name string) string {
	if h.secure {
		return "__Host-" + name
	}
	return name
}

// readCookie returns the content of a cookie that was made here or by another server
// with the same master key; sent is true for any cookie of that name.
func (v *visit) readCookie(name string) (content []byte, sent bool) {
	name = v.cookieName(name)
	c, err := v.Request.Cookie(name)
	if err != nil || c.Value == "" {
		return nil, false
	}
	if err := v.Keys.cookies.Decode(name, c.Value, &content); err != nil {
		return nil, true
	}
	return content, true
}

// setCookie has the browser keep a cookie for an age in seconds, 0: until it is
// closed. It comes before the answer.
func (v *visit) setCookie(name string, content []byte, age int) error {
	value, err := v.Keys.cookies.Encode(v.cookieName(name), content)
	if err != nil {
		return fmt.Errorf("making the cookie %s: %w", name, err)
	}
	v.putCookie(name, value, age)
	return nil
}

func (v *visit) clearCookie(name string) { v.putCookie(name, "", -1) }

func (v *visit) putCookie(name, value string, age int) {
	http.SetCookie(v.X, &http.Cookie{ //nolint:gosec // Secure is as the address of the request
		Name: v.cookieName(name), Value: value, MaxAge: age, Path: "/", HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteStrictMode,
	})
}
