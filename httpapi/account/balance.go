package account

import (
	"net/http"
	"net/url"
	"slices"

	"payledger/domain"
	"payledger/httpapi/account/frame"
	"payledger/httpapi/wire"
)

func balancePages() []page {
	return []page{
		{method: "GET", path: "balance", serve: (*visit).showBalance},
		{method: "GET", path: "balance.csv", serve: (*visit).balanceCSV},
	}
}

// Payable is what the merchant is owed: a credit, so below zero in the books.
func (d pageData) Payable(b wire.CurrencyBooks) domain.Sum { return b.Of(domain.MerchantPayable).Neg() }

// InFlight is what is on its way back to customers.
func (d pageData) InFlight(b wire.CurrencyBooks) domain.Sum {
	return b.Of(domain.RefundsInFlight).Neg()
}

// Late is money that came and could not count as its payment.
func (d pageData) Late(b wire.CurrencyBooks) domain.Sum { return b.Of(domain.Suspense).Neg() }

// balancePage is what balance.html is filled with.
type balancePage struct {
	pageData
	frame.Pager

	Books                       wire.Books
	Account, Currency, From, To string // the filters
	Accounts                    []domain.Account
	Currencies                  []domain.Currency
	Postings                    []wire.Posting
	Filtered                    bool
	CSV                         string
}

func (v *visit) postingFilters() (shown, asked url.Values) {
	shown = v.Filters("account", "currency", "from", "to")
	asked = v.Filters("account", "currency", "from", "to")
	frame.DayRange(asked)
	return shown, asked
}

func (v *visit) showBalance() error {
	shown, asked := v.postingFilters()
	p := balancePage{
		pageData: v.pageData(v.Locale.T("balance.title")),
		Account:  shown.Get("account"), Currency: shown.Get("currency"), From: shown.Get("from"), To: shown.Get("to"), Filtered: len(shown) > 0,
	}
	var err error
	if p.Books, err = v.API.Balance(v.Ctx(), v.Caller, nil); err != nil {
		return err
	}
	for _, b := range p.Books.Balances {
		p.Currencies = append(p.Currencies, b.Currency)
		for _, a := range b.Accounts {
			if !slices.Contains(p.Accounts, a.Account) {
				p.Accounts = append(p.Accounts, a.Account)
			}
		}
	}
	p.CSV = p.Root + "balance.csv?" + shown.Encode()
	p.Postings, p.Pager, err = frame.List(v.Visit, "balance", v.API.Statement, shown, asked)
	if err := p.BadFilter(err); err != nil {
		return err
	}
	return v.Render(http.StatusOK, "balance.html", p)
}

func (v *visit) balanceCSV() error {
	_, asked := v.postingFilters()
	return v.CSV(v.API.StatementTable, asked, "postings.csv")
}

// AccountName says what an account of the books is for.
func (d pageData) AccountName(a domain.Account) string {
	if route := a.Route(); route != "" {
		return d.T("books.receivable", "Route", route)
	}
	if id := "books." + string(a); d.Has(id) {
		return d.T(id)
	}
	return string(a)
}
