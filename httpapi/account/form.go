package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"html/template"
	"net/http"

	"payledger/domain"
	"payledger/httpapi/ui"
)

// maxForm is the longest body of a form, in bytes.
const maxForm = 64 << 10

// formField is the hidden field that a form's token is in.
const formField = "form"

// Form is the hidden field that every form needs: a token of this session, by which what
// the form makes is known when it is sent again.
func (d pageData) Form() template.HTML {
	return template.HTML(`<input type="hidden" name="` + formField + `" value="` + ui.NewToken(d.visit.formMAC()) + `">`) //nolint:gosec // base64url
}

// formMAC begins to authenticate a form of this session.
func (v *visit) formMAC() hash.Hash {
	m := hmac.New(sha256.New, v.Keys.form)
	fmt.Fprintf(m, "%s %s %d ", v.session.Project, v.session.KeyID, v.session.Since)
	return m
}

// readForm reads the form that was sent. One of a signed-in visitor's is refused without
// a token that was made for this session.
func (v *visit) readForm() error {
	form, status, err := ui.ReadForm(v.X, v.Request, maxForm)
	if err != nil {
		return &failure{Status: status, Why: "form"}
	}
	v.form = form
	if v.route.open {
		return nil
	}
	v.token = v.Value(formField)
	if !ui.ValidToken(v.token, v.formMAC()) {
		return &failure{Status: http.StatusForbidden, Why: "unknown_form"}
	}
	return nil
}

// IdempotencyKey is that of what the form leads to, so that the API counts it once.
func (v *visit) IdempotencyKey() *domain.Digest {
	key := domain.Digest(sha256.Sum256([]byte("account form " + v.token)))
	return &key
}

// Random returns bits for what the form creates for a purpose: unpredictable without the master
// key, and the same each time the form is sent, on each node.
func (v *visit) Random(purpose string) [sha256.Size]byte {
	m := hmac.New(sha256.New, v.Keys.random)
	m.Write([]byte(purpose + " " + v.token))
	return [sha256.Size]byte(m.Sum(nil))
}

// secret is shown once, in the answer to the form that created it, and is not stored.
type secret struct {
	Kind   string // of the texts: secret.<kind>.title and so on
	Name   string // what the secret belongs to
	Secret string // "": the form was sent before, and the secret is not shown any more
	Path   string // of the next page
}

// secretPage is what secret.html is filled with.
type secretPage struct {
	pageData
	secret
}

// ShowSecret answers a form with the secret that it has made. A second sending soon
// after, as by a double click, is answered with the same where the form made a key or
// an endpoint; one of a rotation is answered without. The page's script has the browser
// forget that a form led to it, so that reloading it or going back shows none.
func (v *visit) ShowSecret(s secret) error {
	if s.Secret == "" {
		return &failure{Status: http.StatusConflict, Why: "sent", Path: s.Path}
	}
	p := secretPage{v.pageData(v.Locale.T("secret." + s.Kind + ".title")), s}
	p.Switch = false // following it would show nothing any more
	return v.Render(http.StatusOK, "secret.html", p)
}
