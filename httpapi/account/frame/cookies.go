package frame

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
	"net/http"

	"github.com/gorilla/securecookie"
)

// The HKDF labels that keep the keys derived from one master key apart.
const (
	cookieLabel = "payledger account cookie 1"
	formLabel   = "payledger account form 1"
)

// Keys authenticate what browsers keep for the account: cookies, which are encrypted
// too, and tokens of forms. All servers with the same master keys accept what one of
// them made. Keys are immutable and safe for concurrent use.
type Keys struct {
	cookies []securecookie.Codec // of the newest version first
	forms   []formKeys           // in the same order
}

// formKeys are HMAC keys: of the tokens of forms, and of what is made of a token.
type formKeys struct{ token, random []byte }

// NewKeys derives the keys from the master keys by version. current names the one
// for what is made now; what was made with the others stays valid.
func NewKeys(master map[int][32]byte, current int) (*Keys, error) {
	if _, ok := master[current]; !ok {
		return nil, fmt.Errorf("the account: there is no master key of version %d", current)
	}
	versions := []int{current}
	for v := range master {
		if v != current {
			versions = append(versions, v)
		}
	}
	k := new(Keys)
	for _, v := range versions {
		secret := master[v]
		cookie, err := hkdf.Key(sha256.New, secret[:], nil, cookieLabel, 64)
		if err != nil {
			return nil, fmt.Errorf("the account: master key version %d: %w", v, err)
		}
		form, err := hkdf.Key(sha256.New, secret[:], nil, formLabel, 2*sha256.Size)
		if err != nil {
			return nil, fmt.Errorf("the account: master key version %d: %w", v, err)
		}
		// No age of its own: a session lasts as long as its project's limits say.
		k.cookies = append(k.cookies, securecookie.New(cookie[:32], cookie[32:]).MaxAge(0).SetSerializer(securecookie.NopEncoder{}))
		k.forms = append(k.forms, formKeys{form[:sha256.Size], form[sha256.Size:]})
	}
	return k, nil
}

const (
	sessionCookie = "payledger_account"
	noticeCookie  = "payledger_notice"
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

// readCookie answers the content of a cookie that was made here or by another server
// with the same master key; sent is true for any cookie of that name.
func (v *Visit) readCookie(name string) (content []byte, sent bool) {
	name = v.cookieName(name)
	c, err := v.Request.Cookie(name)
	if err != nil || c.Value == "" {
		return nil, false
	}
	if err := securecookie.DecodeMulti(name, c.Value, &content, v.Keys.cookies...); err != nil {
		return nil, true
	}
	return content, true
}

// setCookie has the browser keep a cookie for an age in seconds, 0: until it is
// closed. It comes before the answer.
func (v *Visit) setCookie(name string, content []byte, age int) error {
	value, err := securecookie.EncodeMulti(v.cookieName(name), content, v.Keys.cookies...)
	if err != nil {
		return fmt.Errorf("making the cookie %s: %w", name, err)
	}
	v.putCookie(name, value, age)
	return nil
}

func (v *Visit) clearCookie(name string) { v.putCookie(name, "", -1) }

func (v *Visit) putCookie(name, value string, age int) {
	http.SetCookie(v.X, &http.Cookie{ //nolint:gosec // Secure is as the address of the request
		Name: v.cookieName(name), Value: value, MaxAge: age, Path: "/", HttpOnly: true, Secure: v.secure, SameSite: http.SameSiteStrictMode,
	})
}
