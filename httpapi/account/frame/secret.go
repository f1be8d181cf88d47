package frame

import "net/http"

// Secret is shown once, in the answer to the form that created it, and is not stored.
type Secret struct {
	Kind   string // of the texts: secret.<kind>.title and so on
	Name   string // what the secret belongs to
	Secret string // "": the form was sent before, and the secret is not shown any more
	Path   string // of the next page
}

// secretPage is what secret.html is filled with.
type secretPage struct {
	PageData
	Kind, Name, Secret, Path string
}

// ShowSecret answers a form with the secret that it has made. A second sending soon
// after, as by a double click, is answered with the same. The page's script has the
// browser forget that a form led to it, so that reloading it or going back shows none.
func (v *Visit) ShowSecret(s Secret) error {
	if s.Secret == "" {
		return &Failure{Status: http.StatusConflict, Why: "sent", Path: s.Path}
	}
	p := secretPage{PageData: v.PageData(v.Locale.T("secret." + s.Kind + ".title")), Kind: s.Kind, Name: s.Name, Secret: s.Secret, Path: s.Path}
	p.Switch = false // following it would show nothing any more
	return v.Render(http.StatusOK, "secret.html", p)
}
