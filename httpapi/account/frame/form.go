package frame

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"sync"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// maxForm is the longest body of a form, in bytes.
const maxForm = 64 << 10

// formField is the hidden field that a form's token is in.
const formField = "form"

const nonceBytes = 16

// canonical is the only spelling of a token.
var canonical = base64.RawURLEncoding.Strict() //nolint:gochecknoglobals // immutable

// Form is the hidden field that every form needs: a token that is good for one
// sending in this session.
func (d PageData) Form() template.HTML {
	nonce := make([]byte, nonceBytes, nonceBytes+sha256.Size)
	rand.Read(nonce)
	token := canonical.EncodeToString(append(nonce, d.visit.formMAC(d.visit.Keys.forms[0], nonce)...))
	return template.HTML(`<input type="hidden" name="` + formField + `" value="` + token + `">`) //nolint:gosec // base64url
}

// formMAC authenticates the nonce of a form in this session.
func (v *Visit) formMAC(key, nonce []byte) []byte {
	m := hmac.New(sha256.New, key)
	fmt.Fprintf(m, "%s %s %d ", v.session.Project, v.session.KeyID, v.session.Since)
	m.Write(nonce)
	return m.Sum(nil)
}

// ofSession reports whether a token was made for this session.
func (v *Visit) ofSession(token string) bool {
	in, err := canonical.DecodeString(token)
	return err == nil && len(in) == nonceBytes+sha256.Size && slices.ContainsFunc(v.Keys.forms, func(key []byte) bool {
		return hmac.Equal(in[nonceBytes:], v.formMAC(key, in[:nonceBytes]))
	})
}

func (v *Visit) readForm() error {
	form, status, err := ui.ReadForm(v.X, v.Request, maxForm)
	if err != nil {
		return &Failure{Status: status, Why: "form"}
	}
	v.form = form
	return nil
}

// IdempotencyKey is that of what the form leads to, so that the API counts it
// once, whatever becomes of the file of used forms.
func (v *Visit) IdempotencyKey() *domain.Digest {
	key := domain.Digest(sha256.Sum256([]byte("account form " + v.token)))
	return &key
}

// forms are the forms that are being carried out.
type forms struct {
	mu  sync.Mutex
	now map[string]*formUse // by token
}

// formUse is one form that is being carried out.
type formUse struct {
	done  chan struct{} // closed at the end
	path  string        // where it led to; "" if nowhere
	again bool          // it had been used before, so it was refused
}

// once carries out a form that was sent. Sent twice at once, as by a double
// click, both are led to the same page; sent again later it is refused.
func (v *Visit) once(carryOut func() error) error {
	token := v.Value(formField)
	if !v.ofSession(token) {
		return &Failure{Status: http.StatusForbidden, Why: "unknown_form"}
	}
	v.forms.mu.Lock()
	if first, ok := v.forms.now[token]; ok {
		v.forms.mu.Unlock()
		select {
		case <-first.done:
		case <-v.Request.Context().Done():
			return v.Request.Context().Err()
		}
		if first.path == "" || first.again {
			return &Failure{Status: http.StatusConflict, Why: "sent", Path: first.path}
		}
		return v.Leave(first.path)
	}
	use := &formUse{done: make(chan struct{})}
	if v.forms.now == nil {
		v.forms.now = make(map[string]*formUse)
	}
	v.forms.now[token] = use
	v.forms.mu.Unlock()
	defer func() {
		v.forms.mu.Lock()
		delete(v.forms.now, token)
		v.forms.mu.Unlock()
		close(use.done)
	}()
	fresh, path, err := v.Kept.UseForm(token, v.until)
	switch {
	case err != nil:
		return err
	case !fresh:
		use.path, use.again = path, true
		return &Failure{Status: http.StatusConflict, Why: "sent", Path: path}
	}
	v.token, v.use = token, use
	return carryOut()
}
