package stripetest

import (
	"html/template"
	"net/http"
)

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="{{.Locale}}"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Name}}</title>
<h1>{{.Name}}</h1>
<p id="amount">{{.Amount}} {{.Currency}}</p>
{{if .Declined}}<p id="declined">Your card was declined.</p>{{end}}
{{if .Open}}
<form method="post" action="/c/pay/{{.ID}}/pay"><button id="pay">Pay</button></form>
<form method="post" action="/c/pay/{{.ID}}/decline"><button id="decline">Pay with a card that is declined</button></form>
<form method="post" action="/c/pay/{{.ID}}/cancel"><button id="cancel">Back</button></form>
{{else}}<p id="over">You have completed the payment, or it has timed out.</p>{{end}}
`))

func (s *Stripe) page(w http.ResponseWriter, r *http.Request, declined bool) {
	s.mu.Lock()
	open := s.open(r.PathValue("id")) != nil
	o, ok := s.sessions[r.PathValue("id")]
	s.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = page.Execute(w, map[string]any{
		"ID": o.id, "Locale": o.form.Get("locale"), "Name": o.form.Get(itemName), "Open": open, "Declined": declined,
		"Amount": o.money(o.amount).Amount.String(), "Currency": o.money(o.amount).Currency,
	})
}

// back sends the customer back, or shows the page again if nothing has changed.
func (s *Stripe) back(w http.ResponseWriter, r *http.Request, done bool, to string) {
	s.mu.Lock()
	o, ok := s.sessions[r.PathValue("id")]
	s.mu.Unlock()
	if !ok || !done {
		s.page(w, r, false)
		return
	}
	http.Redirect(w, r, o.form.Get(to), http.StatusSeeOther)
}
