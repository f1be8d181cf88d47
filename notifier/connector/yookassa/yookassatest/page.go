package yookassatest

import (
	"html/template"
	"net/http"
	"strings"
)

// servePage serves what a customer sees at YooKassa, or in the bank's app behind
// a QR code: /pay/ID with two buttons. Either leads back to the shop.
func (f *Fake) servePage(w http.ResponseWriter, r *http.Request) {
	id, ok := strings.CutPrefix(r.URL.Path, "/pay/")
	f.mu.Lock()
	p := f.payments[id]
	var shown struct{ Amount, Status, Description, Back, Locale string }
	if p != nil {
		shown.Amount, shown.Status, shown.Description = p.Amount.Value+" "+string(p.Amount.Currency), p.Status, p.Description
		shown.Back, shown.Locale = p.returnURL, p.locale
	}
	f.mu.Unlock()
	if !ok || p == nil {
		http.NotFound(w, r)
		return
	}
	if r.Method == http.MethodPost {
		if r.FormValue("action") == "pay" {
			f.Pay(id)
		} else {
			f.Decline(id)
		}
		http.Redirect(w, r, shown.Back, http.StatusSeeOther)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page().Execute(w, shown)
}

func page() *template.Template {
	return template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="{{slice .Locale 0 2}}"><meta charset="utf-8"><title>YooKassa (fake)</title>
<h1>{{.Description}}</h1><p id="amount">{{.Amount}}</p>
{{if eq .Status "pending"}}<form method="post">
<button id="pay" name="action" value="pay">Pay</button>
<button id="decline" name="action" value="decline">Decline</button>
</form>{{else}}<p id="status">{{.Status}}</p>{{end}}
<p><a id="back" href="{{.Back}}">Back to the shop</a></p></html>
`))
}
