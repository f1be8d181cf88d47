package account

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/account/frame"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// How the text of a filter is compared with descriptions.
const (
	matchWords  = "words"
	matchPrefix = "prefix"
	matchExact  = "exact"
)

// paymentFilter is the filter of a list of payments, as in the page's address.
type paymentFilter struct {
	Text, Match  string
	Status       string
	Refund       string // status of the last one
	Disputed     string // true, false or ""
	Currency     string
	Least, Most  string // amounts, as they were entered
	First, Final string // days, both part of it

	least, most string // the amounts as the API takes them
	wrong       string // field of an amount in a currency that is not the filter's
}

func (v *visit) paymentFilter() paymentFilter {
	f := paymentFilter{
		Text: v.Query("q"), Match: v.Query("match"), Status: v.Query("status"), Refund: v.Query("refund"), Disputed: v.Query("disputed"), Currency: v.Query("currency"),
		Least: strings.TrimSpace(v.Query("amount_from")), Most: strings.TrimSpace(v.Query("amount_to")),
		First: v.Query("from"), Final: v.Query("to"),
	}
	if f.Match != matchPrefix && f.Match != matchExact {
		f.Match = matchWords
	}
	for field, amount := range map[string]*string{"amount_from": &f.least, "amount_to": &f.most} {
		var named domain.Currency
		*amount, named = v.Locale.ReadAmount(v.Query(field), v.Caller.Project.Settings.Currencies)
		switch {
		case named == "":
		case f.Currency == "":
			f.Currency = string(named)
		case f.Currency != string(named):
			f.wrong = field
		}
	}
	return f
}

// Any reports whether anything is left out.
func (f paymentFilter) Any() bool { return f != paymentFilter{Match: f.Match} }

// More reports whether any of the filters is set that are seldom needed.
func (f paymentFilter) More() bool {
	return f.Disputed+f.Currency+f.Least+f.Most+f.First+f.Final != "" || f.Match != matchWords
}

// address is the filter as the query of the page; what is not set is left out.
func (f paymentFilter) address() url.Values {
	q := url.Values{}
	match := f.Match
	if f.Text == "" || match == matchWords {
		match = ""
	}
	for name, value := range map[string]string{
		"q": f.Text, "match": match, "status": f.Status, "refund": f.Refund, "disputed": f.Disputed, "currency": f.Currency,
		"amount_from": f.Least, "amount_to": f.Most, "from": f.First, "to": f.Final,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// parameters is the filter as the API takes it. The error names the field, as the
// API's own refusals do their parameter.
func (v *visit) parameters(f paymentFilter) (url.Values, error) {
	q := url.Values{}
	if f.wrong != "" {
		return q, edge.BadParameter(f.wrong, "The amount is in another currency than the filter.")
	}
	text := map[string]string{matchWords: "description_words", matchPrefix: "description_prefix", matchExact: "description"}[f.Match]
	for name, value := range map[string]string{
		text: f.Text, "status": f.Status, "refund_status": f.Refund, "disputed": f.Disputed, "currency": f.Currency, "created_from": f.First, "created_to": f.Final,
		"amount_min": strings.TrimSpace(f.least), "amount_max": strings.TrimSpace(f.most),
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	v.Days(q, "created_from", "created_to")
	return q, nil
}

// filterField is the field of the form that a parameter of the API comes from.
func filterField(parameter string) string {
	switch parameter {
	case "amount_min":
		return "amount_from"
	case "amount_max":
		return "amount_to"
	case "created_from":
		return "from"
	case "created_to":
		return "to"
	case "refund_status":
		return "refund"
	case "description", "description_prefix", "description_words":
		return "q"
	}
	return parameter
}

// total is what a list amounts to in one currency.
type total struct {
	Currency  domain.Currency
	All, Paid domain.Sum
	Refunded  domain.Sum // of what was paid
}

// Net is the sum of payments without refunds.
func (t total) Net() domain.Sum { return t.Paid.Add(t.Refunded.Neg()) }

// InEach adds up the totals over statuses, the currency with the highest sum first.
func (p paymentsPage) InEach() (all []total) {
	for _, d := range p.Totals.Data {
		i := slices.IndexFunc(all, func(o total) bool { return o.Currency == d.Currency })
		if i < 0 {
			i, all = len(all), append(all, total{Currency: d.Currency})
		}
		all[i].All = all[i].All.Add(d.Sum)
		if d.Status == domain.Paid {
			all[i].Paid = all[i].Paid.Add(d.Sum)
			all[i].Refunded = all[i].Refunded.Add(d.Refunded.Sum)
		}
	}
	slices.SortStableFunc(all, func(a, b total) int { return b.All.Compare(a.All) })
	return all
}

// paymentsPage is what payments.html is filled with.
type paymentsPage struct {
	pageData
	Filter     paymentFilter
	Statuses   []domain.PaymentStatus
	Refunds    []domain.RefundStatus
	Currencies []domain.Currency
	Payments   []wire.PaymentRow
	Totals     wire.Totals
	CSV        string
	AsAmount   string // address of the payments whose amount the text can mean, "" for none
	frame.Pager
}

func (v *visit) listPayments() error {
	page := paymentsPage{
		pageData: v.pageData(v.Locale.T("payments.title")), Filter: v.paymentFilter(),
		Statuses: domain.PaymentStatuses(), Refunds: append(domain.PaymentRefundStatuses(), "none"), Currencies: v.Caller.Project.Settings.Currencies,
	}
	if _, ok := domain.ParseID(strings.ToUpper(strings.TrimSpace(page.Filter.Text))); ok {
		return v.Leave("search?" + url.Values{"q": {page.Filter.Text}}.Encode())
	}
	if lists, err := v.meanings(page.Filter.Text); err != nil {
		return err
	} else if other := lists[len(lists)-1]; len(lists) > 1 && other.Has("amount_from") {
		page.AsAmount = page.Root + "payments?" + other.Encode()
	}
	page.CSV = page.Root + "payments.csv?" + page.Filter.address().Encode()
	status, err := v.fillPayments(&page)
	if err != nil {
		return err
	}
	return v.Render(status, "payments.html", page)
}

// fillPayments reads the list. A filter that cannot be is said at its field.
func (v *visit) fillPayments(page *paymentsPage) (status int, err error) {
	q, err := v.parameters(page.Filter)
	if err == nil {
		page.Totals, err = v.API.Totals(v.Ctx(), v.Caller, q)
	}
	if err == nil {
		page.Payments, page.Pager, err = frame.List(v.Visit, "payments", merchant.PageOf(v.API.Payments), page.Filter.address(), q)
	}
	if p := v.Refusal(err); p != nil && p.Code == domain.InvalidParameter {
		field := filterField(p.Parameter)
		page.Alert = &frame.Notice{Tone: "bad", Text: v.Locale.T("payments.bad_filter")}
		page.Fields = map[string]string{field: p.Detail}
		switch id := "payments.bad." + field; {
		case page.Filter.wrong != "":
			page.Fields[field] = v.Locale.T("wrong.amount_currency", "Currency", page.Filter.Currency)
		case field == "amount_from", field == "amount_to":
			page.Fields[field] = v.Locale.T("wrong.amount_format", "Example", v.Locale.AmountExample())
		case v.Locale.Has(id):
			page.Fields[field] = v.Locale.T(id)
		}
		return http.StatusBadRequest, nil
	}
	return http.StatusOK, err
}

// paymentsCSV answers the list of a filter, all of it.
func (v *visit) paymentsCSV() error {
	q, err := v.parameters(v.paymentFilter())
	if err != nil {
		return err
	}
	now := v.Now().In(v.Caller.Calendar().Zone())
	return frame.CSV(v.Visit, v.API.Payments, q, "payments-"+now.Format("20060102-1504")+".csv")
}
