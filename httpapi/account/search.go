package account

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// search leads to what an id belongs to, else to the payments that have the
// amount or whose descriptions have the words.
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
	if isID(text) {
		return &failure{Status: http.StatusNotFound, Why: "no_id", Path: "payments"}
	}
	lists, err := v.meanings(text)
	if err != nil {
		return err
	}
	return v.Leave("payments?" + lists[0].Encode())
}

// isID reports whether a text is an id as Lookup reads it: in any case, with blanks around it.
func isID(text string) bool {
	_, ok := domain.ParseID(strings.ToUpper(strings.TrimSpace(text)))
	return ok
}

// meanings are the lists of payments that a text can mean, the likeliest first: an amount, or
// words. A bare number is more often an order's, in a description. If it finds nothing, the other
// list is searched.
func (v *visit) meanings(text string) ([]url.Values, error) {
	words := url.Values{"q": {text}}
	amount, currency := v.Locale.ReadAmount(text, v.Caller.Project.Settings.Currencies)
	if a, _ := domain.ParseAmount(amount); a == 0 {
		return []url.Values{words}, nil // it is none
	}
	asked := url.Values{"amount": {amount}, "limit": {"1"}}
	sum := url.Values{"amount_from": {strings.TrimSpace(text)}, "amount_to": {strings.TrimSpace(text)}}
	if currency != "" {
		asked.Set("currency", string(currency))
		sum.Set("currency", string(currency))
	}
	lists := []url.Values{sum, words}
	bare := amount == strings.TrimSpace(text) && !strings.Contains(amount, ".")
	if bare {
		asked = url.Values{"description_words": {amount}, "limit": {"1"}}
		slices.Reverse(lists)
	}
	likeliest, err := merchant.PageOf(v.API.Payments)(v.Ctx(), v.Caller, asked)
	if err == nil && len(likeliest.Data) == 0 {
		slices.Reverse(lists)
	}
	return lists, err
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
