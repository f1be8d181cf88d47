package ui

import (
	"crypto/hmac"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// The errors of ReadForm that are not those of the connection. They name nothing of
// what was sent.
var (
	errNoForm     = errors.New("the body is not a form in UTF-8")
	errLongForm   = errors.New("the form is too long")
	errBrokenForm = errors.New("the form cannot be read")
)

// ReadForm reads the form that a page has sent, of at most limit bytes. status is
// that of the answer if err is not nil.
func ReadForm(w http.ResponseWriter, r *http.Request, limit int64) (form url.Values, status int, err error) {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, has := params["charset"]
	if err != nil || media != "application/x-www-form-urlencoded" || has && !strings.EqualFold(charset, "utf-8") ||
		r.Header.Get("Content-Encoding") != "" {
		return nil, http.StatusUnsupportedMediaType, errNoForm
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, http.StatusRequestEntityTooLarge, errLongForm
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("reading the form: %w", err)
	}
	if form, err = url.ParseQuery(string(body)); err != nil || !validUTF8(form) {
		return nil, http.StatusBadRequest, errBrokenForm
	}
	return form, 0, nil
}

// One is the value of a field that was sent exactly once, else "".
func One(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

const nonceBytes = 16

// NewToken makes the token of one form: a fresh nonce and its MAC, after what the MAC was begun with.
func NewToken(mac hash.Hash) string {
	nonce := make([]byte, nonceBytes, nonceBytes+mac.Size())
	rand.Read(nonce)
	mac.Write(nonce)
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nonce))
}

// ValidToken reports whether a token was made with a MAC begun like this one. A token has one
// spelling: the decoder skips line breaks, so the text's own length counts.
func ValidToken(token string, mac hash.Hash) bool {
	in, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(in) != nonceBytes+mac.Size() || len(token) != base64.RawURLEncoding.EncodedLen(len(in)) {
		return false
	}
	mac.Write(in[:nonceBytes])
	return hmac.Equal(in[nonceBytes:], mac.Sum(nil))
}

// validUTF8 reports whether the values of all fields are.
func validUTF8(form url.Values) bool {
	for _, values := range form {
		if slices.ContainsFunc(values, func(text string) bool { return !utf8.ValidString(text) }) {
			return false
		}
	}
	return true
}
