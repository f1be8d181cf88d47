package frame

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"

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

// Form is the hidden field that every form needs: a token of this session, by which what
// the form makes is known when it is sent again.
func (d PageData) Form() template.HTML {
	nonce := make([]byte, nonceBytes, nonceBytes+sha256.Size)
	rand.Read(nonce)
	token := canonical.EncodeToString(append(nonce, d.visit.formMAC(nonce)...))
	return template.HTML(`<input type="hidden" name="` + formField + `" value="` + token + `">`) //nolint:gosec // base64url
}

// formMAC authenticates the nonce of a form in this session.
func (v *Visit) formMAC(nonce []byte) []byte {
	m := hmac.New(sha256.New, v.Keys.form)
	fmt.Fprintf(m, "%s %s %d ", v.session.Project, v.session.KeyID, v.session.Since)
	m.Write(nonce)
	return m.Sum(nil)
}

// checkToken refuses a form without a token that was made for this session.
func (v *Visit) checkToken() error {
	token := v.Value(formField)
	in, err := canonical.DecodeString(token)
	if err != nil || len(in) != nonceBytes+sha256.Size || !hmac.Equal(in[nonceBytes:], v.formMAC(in[:nonceBytes])) {
		return &Failure{Status: http.StatusForbidden, Why: "unknown_form"}
	}
	v.token = token
	return nil
}

func (v *Visit) readForm() error {
	form, status, err := ui.ReadForm(v.X, v.Request, maxForm)
	if err != nil {
		return &Failure{Status: status, Why: "form"}
	}
	v.form = form
	return nil
}

// IdempotencyKey is that of what the form leads to, so that the API counts it once.
func (v *Visit) IdempotencyKey() *domain.Digest {
	key := domain.Digest(sha256.Sum256([]byte("account form " + v.token)))
	return &key
}

// Random returns bits for what the form creates for a purpose: unpredictable without the master
// key, and the same each time the form is sent, on each node.
func (v *Visit) Random(purpose string) [sha256.Size]byte {
	m := hmac.New(sha256.New, v.Keys.random)
	m.Write([]byte(purpose + " " + v.token))
	return [sha256.Size]byte(m.Sum(nil))
}
