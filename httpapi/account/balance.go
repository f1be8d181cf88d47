package account

import (
	"net/http"
	"net/url"
	"slices"

	"payledger/domain"
)

func (h *handler) balancePages() []page {
	return []page{
		{method: "GET", path: "balance", serve: (*visit).showBalance},
		{method: "GET", path: "balance.csv", serve: (*visit).balanceCSV},
	}
}

// books are the accounts of a project at one moment.
type books struct {
	Position uint64          `json:"position"`
	Time     *domain.Instant `json:"time"`
	Balances []currencyBooks `json:"balances"`
}

type currencyBooks struct {
	Currency domain.Currency `json:"currency"`
	Accounts []struct {
		Account domain.Account `json:"account"`
		Balance domain.Sum     `json:"balance"`
	} `json:"accounts"`
	Total domain.Sum `json:"total"`
}

// of answers the balance of an account, 0 when nothing was booked on it.
func (b currencyBooks) of(account domain.Account) domain.Sum {
	for _, a := range b.Accounts {
		if a.Account == account {
			return a.Balance
		}
	}
	return domain.Sum{}
}

// Payable is what the merchant is owed: a credit, so below zero in the books.
func (b currencyBooks) Payable() domain.Sum { return b.of(domain.MerchantPayable).Neg() }

// InFlight is what is on its way back to customers.
func (b currencyBooks) InFlight() domain.Sum { return b.of(domain.RefundsInFlight).Neg() }

// Late is money that came and could not count as its payment.
func (b currencyBooks) Late() domain.Sum { return b.of(domain.Suspense).Neg() }

// Receivable is what the providers have collected, of all routes.
func (b currencyBooks) Receivable() (sum domain.Sum) {
	for _, a := range b.Accounts {
		if a.Account.Route() != "" {
			sum = sum.Add(a.Balance)
		}
	}
	return sum
}

func (v *visit) books() (books, error) { return get[books](v, "/v1/balance", nil) }

// posting is a line of the statement.
type posting struct {
	Position  uint64          `json:"position"`
	Time      domain.Instant  `json:"time"`
	EventType string          `json:"event_type"`
	PaymentID domain.ID       `json:"payment_id"`
	Account   domain.Account  `json:"account"`
	Currency  domain.Currency `json:"currency"`
	Amount    domain.Sum      `json:"amount"`
	Balance   domain.Sum      `json:"balance"`
}

// balancePage is what balance.html is filled with.
type balancePage struct {
	desk
	pager

	Books                       books
	Account, Currency, From, To string // the filters
	Accounts                    []domain.Account
	Currencies                  []domain.Currency
	Postings                    []posting
	Filtered                    bool
	CSV                         string
}

func (v *visit) postingFilters() (shown, asked url.Values) {
	shown = v.filters("account", "currency", "from", "to")
	asked = v.filters("account", "currency", "from", "to")
	dayRange(asked)
	return shown, asked
}

func (v *visit) showBalance() error {
	shown, asked := v.postingFilters()
	p := balancePage{
		desk:    v.desk(v.locale.T("balance.title")),
		Account: shown.Get("account"), Currency: shown.Get("currency"), From: shown.Get("from"), To: shown.Get("to"), Filtered: len(shown) > 0,
	}
	var err error
	if p.Books, err = v.books(); err != nil {
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
	if p.Postings, p.pager, err = readList[posting](v, &p.desk, "balance", "/v1/balance/statement", shown, asked); err != nil {
		return err
	}
	return v.render(http.StatusOK, "balance.html", p)
}

func (v *visit) balanceCSV() error {
	_, asked := v.postingFilters()
	return v.csv("/v1/balance/statement", asked, "postings.csv")
}

// AccountName says what an account of the books is for.
func (d desk) AccountName(a domain.Account) string {
	if route := a.Route(); route != "" {
		return d.T("books.receivable", "Route", route)
	}
	if id := "books." + string(a); d.Has(id) {
		return d.T(id)
	}
	return string(a)
}
