package account

import (
	"net/http"
	"net/url"
	"strings"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// search leads to what an id belongs to, else to the payments that have the
// amount or whose descriptions have the words: where one of both finds nothing, to the other.
func (v *visit) search() error {
	text := v.Query("q")
	if text == "" {
		return v.Leave("payments")
	}
	found, err := v.API.Lookup(v.Ctx(), v.Caller, text)
	if p := v.Refusal(err); err != nil && (p == nil || p.Code != domain.InvalidParameter) {
		return err
	}
	if path := pathOf(found); path != "" {
		return v.Leave(path)
	}
	words, byWords := url.Values{"q": {text}}, url.Values{"description_words": {strings.TrimSpace(text)}}
	first, asked := v.ofAmount(text)
	second, bare := words, strings.Trim(strings.TrimSpace(text), "0123456789") == ""
	switch {
	case first == nil && !isID(text):
		return v.Leave("payments?" + words.Encode())
	case first == nil || bare: // it is more often an order's, in a description
		first, asked, second = words, byWords, first
	}
	asked.Set("limit", "1")
	likeliest, err := merchant.PageOf(v.API.Payments)(v.Ctx(), v.Caller, asked)
	switch {
	case err != nil:
		return err
	case len(likeliest.Data) == 0 && second == nil:
		return &failure{Status: http.StatusNotFound, Why: "no_id", Path: "payments"}
	case len(likeliest.Data) == 0:
		first = second
	}
	return v.Leave("payments?" + first.Encode())
}

// isID reports whether a text is an id as Lookup reads it: in any case, with blanks around it.
func isID(text string) bool {
	_, ok := domain.ParseID(strings.ToUpper(strings.TrimSpace(text)))
	return ok
}

// ofAmount is the list of the payments of the amount that a text can be, and how the API is asked for
// them; nil where it can be none.
func (v *visit) ofAmount(text string) (list, asked url.Values) {
	amount, currency := v.Locale.ReadAmount(text, v.Caller.Project.Settings.Currencies)
	if a, _ := domain.ParseAmount(amount); a == 0 {
		return nil, nil
	}
	asked = url.Values{"amount": {amount}}
	list = url.Values{"amount_from": {strings.TrimSpace(text)}, "amount_to": {strings.TrimSpace(text)}}
	if currency != "" {
		asked.Set("currency", string(currency))
		list.Set("currency", string(currency))
	}
	return list, asked
}

// pathOf is where a place is shown, below the account.
func pathOf(p wire.Place) string {
	switch {
	case p.Payment != nil && p.Part != nil:
		return "payments/" + p.Payment.String() + "#" + p.Part.String()
	case p.Payment != nil:
		return "payments/" + p.Payment.String()
	case p.Endpoint != "":
		return "webhooks/" + p.Endpoint
	case p.Key != "":
		return "keys#" + p.Key
	}
	return ""
}
