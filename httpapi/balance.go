package httpapi

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections"
)

// booksView is the books at one moment of the log.
type booksView struct {
	Position eventstore.Position `json:"position"` // of the last event they stand for
	Time     *domain.Instant     `json:"time"`     // of that event; null before the first
	Balances []currencyBooks     `json:"balances"`
}

// currencyBooks are the accounts of one currency. Their total is zero: every
// event books what it moves twice.
type currencyBooks struct {
	Currency domain.Currency  `json:"currency"`
	Accounts []accountBalance `json:"accounts"`
	Total    domain.Sum       `json:"total"`
}

type accountBalance struct {
	Account domain.Account `json:"account"`
	Balance domain.Sum     `json:"balance"`
}

// statementLine is one posting with the balance after it.
type statementLine struct {
	Position  eventstore.Position `json:"position"`
	Time      domain.Instant      `json:"time"`
	EventID   domain.ID           `json:"event_id"`
	EventType string              `json:"event_type"`
	PaymentID domain.ID           `json:"payment_id"`
	RefundID  *domain.ID          `json:"refund_id"`
	Account   domain.Account      `json:"account"`
	Currency  domain.Currency     `json:"currency"`
	Amount    domain.Sum          `json:"amount"`
	Balance   domain.Sum          `json:"balance"`
}

// balance answers GET /v1/balance.
func (a *merchants) balance(x *exchange) error {
	q, err := parseQuery(x.r.URL.RawQuery, "as_of")
	if err != nil {
		return err
	}
	books, err := booksOf(x, a.cfg.Views, x.project.ID, q)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, viewOfBooks(books))
}

// statement answers GET /v1/balance/statement, oldest first.
func (a *merchants) statement(x *exchange) error {
	req, err := pageOf(x, "account", "currency", "from", "to")
	if err != nil {
		return err
	}
	q, err := journalQuery(req)
	if err != nil {
		return err
	}
	q.Project = x.project.ID
	if x.asCSV() {
		return a.statementCSV(x, req, q)
	}
	found, err := a.cfg.Views.Journal(x.ctx(), q)
	if err != nil {
		return err
	}
	rows := make([]statementLine, len(found.Lines))
	for i, l := range found.Lines {
		rows[i] = statementOf(l)
	}
	return x.replyPage(req, rows, placeAfter(found))
}

// booksOf reads as_of and answers the books of that moment.
func booksOf(x *exchange, views *projections.Engine, project string, q query) (projections.Books, error) {
	as, err := asOf(q)
	if err != nil {
		return projections.Books{}, err
	}
	books, err := views.Balances(x.ctx(), project, as)
	if ahead, ok := errors.AsType[*projections.AheadError](err); ok {
		err = badParameter("as_of", "The log ends at position "+positionText(ahead.Last)+".")
	}
	return books, err
}

func positionText(p eventstore.Position) string { return strconv.FormatUint(uint64(p), 10) }

// asOf reads a moment: a position, which is digits alone, or a time.
func asOf(q query) (projections.AsOf, error) {
	const name = "as_of"
	s := q[name]
	if !q.has(name) {
		return projections.AsOf{}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil && strconv.FormatUint(n, 10) == s {
		return projections.AsOfPosition(eventstore.Position(n)), nil
	}
	var t domain.Instant
	if err := t.UnmarshalText([]byte(s)); err != nil || t < 0 {
		return projections.AsOf{}, badParameter(name,
			"Send a time such as 2026-11-20T10:15:30Z (in an offset write + as %2B) or a position of the log such as 88417.")
	}
	return projections.AsOfTime(t), nil
}

func viewOfBooks(b projections.Books) booksView {
	v := booksView{Position: b.Position, Balances: byCurrency(b.Balances)}
	if b.Position > 0 {
		v.Time = &b.Time
	}
	return v
}

// byCurrency groups balances that are in order of currency.
func byCurrency(all []projections.Balance) []currencyBooks {
	out := []currencyBooks{}
	for _, b := range all {
		if len(out) == 0 || out[len(out)-1].Currency != b.Currency {
			out = append(out, currencyBooks{Currency: b.Currency})
		}
		c := &out[len(out)-1]
		c.Accounts = append(c.Accounts, accountBalance{b.Account, b.Balance})
		c.Total = c.Total.Add(b.Balance)
	}
	return out
}

// journalQuery reads the filters of a statement.
func journalQuery(req listRequest) (q projections.JournalQuery, err error) {
	f := req.filters
	q.Limit = req.limit
	if q.Account = domain.Account(f["account"]); f.has("account") && !q.Account.Known() {
		return q, badParameter("account",
			"Send merchant_payable, refunds_in_flight, suspense, or acquirer_receivable: and the name of a route.")
	}
	if q.Currency = domain.Currency(f["currency"]); f.has("currency") && q.Currency == "" {
		return q, badParameter("currency", "Send a currency such as RUB.")
	}
	if q.From, err = f.instant("from"); err != nil {
		return q, err
	}
	if q.To, err = f.instant("to"); err != nil {
		return q, err
	}
	if req.place != "" {
		if q.After, err = parsePlace(req.place); err != nil {
			return q, problem{Code: domain.InvalidCursor}
		}
	}
	return q, nil
}

// placeAfter is the place of a page's last line, "" when nothing follows.
func placeAfter(p projections.JournalPage) string {
	if !p.More || len(p.Lines) == 0 {
		return ""
	}
	at := p.Lines[len(p.Lines)-1].Place()
	return positionText(at.Position) + " " + url.QueryEscape(string(at.Currency)) + " " + string(at.Account)
}

func parsePlace(s string) (p projections.JournalPlace, err error) {
	parts := strings.SplitN(s, " ", 3)
	if len(parts) != 3 {
		return p, errors.New("want a position, a currency and an account")
	}
	n, err := strconv.ParseUint(parts[0], 10, 63)
	if err != nil {
		return p, err
	}
	currency, err := url.QueryUnescape(parts[1])
	return projections.JournalPlace{
		Position: eventstore.Position(n), Currency: domain.Currency(currency), Account: domain.Account(parts[2]),
	}, err
}

func statementOf(l projections.JournalLine) statementLine {
	s := statementLine{
		Position: l.Position, Time: l.At, EventID: l.Event, EventType: l.Type, PaymentID: l.Payment,
		Account: l.Account, Currency: l.Currency, Amount: l.Amount, Balance: l.Balance,
	}
	if !l.Refund.IsZero() {
		s.RefundID = &l.Refund
	}
	return s
}
