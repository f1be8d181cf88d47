package account

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"payledger/domain"
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

// paymentFields are the fields of the filter of payments besides its text, each with the parameter of
// the API that it becomes.
func paymentFields() [][2]string {
	return [][2]string{
		{"status", "status"},
		{"refund", "refund_status"},
		{"disputed", "disputed"},
		{"currency", "currency"},
		{"amount_from", "amount_min"},
		{"amount_to", "amount_max"},
		{"from", "created_from"},
		{"to", "created_to"},
	}
}

// paymentFilter is the filter of a list of payments, as in the page's address; what is not set is left
// out.
type paymentFilter struct{ url.Values }

// Match is how the text is compared.
func (f paymentFilter) Match() string { return cmp.Or(f.Get("match"), matchWords) }

// Any reports whether anything is left out of the list.
func (f paymentFilter) Any() bool { return len(f.Values) > len(f.Values["match"]) }

// More reports whether any of the filters is set that are seldom needed.
func (f paymentFilter) More() bool {
	for name := range f.Values {
		if name != "q" && name != "status" && name != "refund" {
			return true
		}
	}
	return false
}

// paymentFilter reads the filter of the page's address. asked is the same as the API takes it. The error
// names the field, as the API's own refusals do their parameter.
func (v *visit) paymentFilter() (f paymentFilter, asked url.Values, err error) {
	f.Values, asked = v.Filters("q", "match"), url.Values{}
	if m := f.Match(); m != matchPrefix && m != matchExact {
		f.Del("match")
	}
	if text := f.Get("q"); text != "" {
		asked.Set(map[string]string{matchWords: "description_words", matchPrefix: "description_prefix", matchExact: "description"}[f.Match()], text)
	}
	for _, field := range paymentFields() {
		name, value := field[0], strings.TrimSpace(v.Query(field[0]))
		if value == "" {
			continue
		}
		f.Set(name, value)
		if strings.HasPrefix(name, "amount_") {
			var named domain.Currency
			value, named = v.Locale.ReadAmount(value, v.Caller.Project.Settings.Currencies)
			switch f.Get("currency") {
			case string(named):
			case "":
				f.Set("currency", string(named))
				asked.Set("currency", string(named))
			default:
				if named != "" {
					err = edge.BadParameter(name, "The amount is in another currency than the filter.")
				}
			}
		}
		asked.Set(field[1], value)
	}
	v.Days(asked, "created_from", "created_to")
	return f, asked, err
}

// filterField is the field of the form that a parameter of the API comes from.
func filterField(parameter string) string {
	for _, field := range paymentFields() {
		if field[1] == parameter {
			return field[0]
		}
	}
	if strings.HasPrefix(parameter, "description") {
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
	pager
}

func (v *visit) listPayments() error {
	page := paymentsPage{
		pageData: v.pageData(v.Locale.T("payments.title")),
		Statuses: domain.PaymentStatuses(), Refunds: append(domain.PaymentRefundStatuses(), "none"), Currencies: v.Caller.Project.Settings.Currencies,
	}
	var asked url.Values
	var refused error
	page.Filter, asked, refused = v.paymentFilter()
	text := page.Filter.Get("q")
	if ofAmount, _ := v.ofAmount(text); ofAmount != nil {
		page.AsAmount = page.Root + "payments?" + ofAmount.Encode()
	}
	page.CSV = page.Root + "payments.csv?" + page.Filter.Encode()
	if refused == nil {
		page.Totals, refused = v.API.Totals(v.Ctx(), v.Caller, asked)
	}
	if refused == nil {
		page.Payments, page.pager, refused = listOf(v, "payments", merchant.PageOf(v.API.Payments), page.Filter.Values, asked)
	}
	if err := page.badField(refused); err != nil {
		return err
	}
	if c := domain.Currency(page.Filter.Get("currency")); refused == nil && c != "" && !slices.Contains(page.Currencies, c) {
		page.Currencies = append(slices.Clone(page.Currencies), c) // new payments cannot have it any more
	}
	if refused == nil && len(page.Payments) == 0 && isID(text) { // of no description
		return v.Leave("search?" + url.Values{"q": {text}}.Encode())
	}
	return v.Render(page.Answer(), "payments.html", page)
}

// badField says at its field why a filter was refused; another error is that of BadFilter.
func (p *paymentsPage) badField(err error) error {
	refused := p.visit.Refusal(err)
	if refused == nil || refused.Code != domain.InvalidParameter {
		return p.BadFilter(err)
	}
	field := filterField(refused.Parameter)
	p.WrongField(field, refused.Detail)
	p.Alert.Text, p.wrong = p.T("payments.bad_filter"), true
	switch id := "payments.bad." + field; {
	case strings.HasPrefix(field, "amount_") && field == refused.Parameter:
		p.Fields[field] = p.T("wrong.amount_currency", "Currency", p.Filter.Get("currency"))
	case strings.HasPrefix(field, "amount_"):
		p.Fields[field] = p.T("wrong.amount_format", "Example", p.AmountExample())
	case p.Has(id):
		p.Fields[field] = p.T(id)
	}
	return nil
}

// paymentsCSV answers the list of a filter, all of it.
func (v *visit) paymentsCSV() error {
	_, asked, err := v.paymentFilter()
	if err != nil {
		return err
	}
	now := v.config.Now().In(v.Caller.Calendar().Zone())
	return replyCSV(v, v.API.Payments, asked, "payments-"+now.Format("20060102-1504")+".csv")
}
