package account

import (
	"net/url"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// Credit is what the books hold on an account that is below zero in them: what is owed to the merchant
// or to customers, what providers hold, and on the bank what was paid out.
func (pageData) Credit(b wire.CurrencyBooks, of domain.Account) domain.Sum { return b.Of(of).Neg() }

// OnItsWay is what providers have settled and was not paid out yet, as far as it is still owed.
func (d pageData) OnItsWay(b wire.CurrencyBooks) domain.Sum {
	settled := b.Of(domain.Bank)
	for _, a := range b.Accounts {
		if a.Account.InTransit() {
			settled = settled.Add(a.Balance)
		}
	}
	if owed := d.Credit(b, domain.MerchantPayable); settled.Compare(owed) > 0 {
		settled = owed
	}
	if settled.Sign() < 0 {
		return domain.Sum{}
	}
	return settled
}

// balancePage is what balance.html is filled with.
type balancePage struct {
	pageData
	pager

	Books                       wire.Books
	Account, Currency, From, To string // the filters
	Accounts                    []domain.Account
	Currencies                  []domain.Currency
	Postings                    []wire.Posting
	Of                          subjects
	Fees                        map[domain.Currency]domain.Sum // of providers, in the period
	Both                        bool                           // both sides of each posting
	Filtered                    bool
	CSV                         string
}

// The statement shows the merchant's own side of what was posted, or the account
// that is chosen, or all of them.
const (
	ownSide   = domain.MerchantPayable
	bothSides = "all"
)

// Side is a sum of an account as its reader counts. What is owed to the merchant and to customers
// is a credit, and so is on the bank what was paid out to the merchant: below zero in the books, and
// shown above zero here.
func (p balancePage) Side(s domain.Sum, of domain.Account) domain.Sum {
	if p.Both || of.Asset() && of != domain.Bank {
		return s
	}
	return s.Neg()
}

// Change is a sum by which a balance changed, with its sign in any case.
func (p balancePage) Change(s domain.Sum, c domain.Currency) string {
	if s.Sign() > 0 {
		return "+" + p.Sum(s, c)
	}
	return p.Sum(s, c)
}

// EntryWord says what a posting is. What a settlement report takes of what is owed to the merchant
// is the fees.
func (p balancePage) EntryWord(l wire.Posting) string {
	eventType := l.EventType
	if l.Account == ownSide && strings.HasPrefix(eventType, "report.") {
		return p.T("balance.fees")
	}
	if id := "entry." + eventType; p.Has(id) {
		return p.T(id)
	}
	return p.EventWord(eventType)
}

func (v *visit) postingFilters() (shown, asked url.Values) {
	shown = v.Filters("account", "currency", "from", "to")
	asked = v.Filters("account", "currency", "from", "to")
	v.Days(asked, "from", "to")
	switch asked.Get("account") {
	case "":
		asked.Set("account", string(ownSide))
	case bothSides:
		asked.Del("account")
	}
	asked.Set("order", merchant.NewestFirst)
	return shown, asked
}

func (v *visit) showBalance() error {
	shown, asked := v.postingFilters()
	p := balancePage{
		pageData: v.pageData(v.Locale.T("balance.title")),
		Account:  shown.Get("account"), Currency: shown.Get("currency"), From: shown.Get("from"), To: shown.Get("to"),
		Both: shown.Get("account") == bothSides, Filtered: len(shown) > 0,
	}
	var err error
	if p.Books, err = v.API.Balance(v.Ctx(), v.Caller, nil); err != nil {
		return err
	}
	for _, b := range p.Books.Balances {
		p.Currencies = append(p.Currencies, b.Currency)
		for _, a := range b.Accounts {
			if a.Account != ownSide && !slices.Contains(p.Accounts, a.Account) {
				p.Accounts = append(p.Accounts, a.Account)
			}
		}
	}
	p.CSV = p.Root + "balance.csv?" + shown.Encode()
	p.Postings, p.pager, err = listOf(v, "balance", merchant.PageOf(v.API.Statement), shown, asked)
	if err == nil {
		p.Fees, err = v.API.Fees(v.Ctx(), v.Caller, asked)
	}
	if err := p.BadFilter(err); err != nil {
		return err
	}
	if p.Of, err = v.subjects(p.pageData, each(p.Postings, func(l wire.Posting) *domain.ID { return l.PaymentID })); err != nil {
		return err
	}
	return v.Render(p.Answer(), "balance.html", p)
}

func (v *visit) balanceCSV() error {
	_, asked := v.postingFilters()
	return replyCSV(v, v.API.Statement, asked, "postings.csv")
}

func (v *visit) payoutsCSV() error {
	asked := v.Filters("currency", "from", "to")
	v.Days(asked, "from", "to")
	return replyCSV(v, v.API.Payouts, asked, "payouts.csv")
}

// AccountName says what an account of the books is for.
func (d pageData) AccountName(a domain.Account) string {
	if route := a.Route(); route != "" {
		return d.T("books.receivable", "Route", route)
	}
	if kind, route, ok := strings.Cut(string(a), ":"); ok {
		return d.T("books."+kind, "Route", route)
	}
	if id := "books." + string(a); d.Has(id) {
		return d.T(id)
	}
	return string(a)
}
