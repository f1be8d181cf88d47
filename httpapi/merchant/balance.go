package merchant

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections"
	"payledger/projections/books"
)

// GetBalance answers GET /v1/balance.
func (h Handlers) GetBalance(x *edge.Exchange) error {
	q, err := x.Query("as_of")
	if err != nil {
		return err
	}
	return x.Answer(h.api.Balance(x.Context(), CallerOf(x), q))
}

// Balance is the project's books; as_of in the query names a time or a
// position, without it they are the present ones. Needs read.
func (a *API) Balance(ctx context.Context, c Caller, q edge.Query) (wire.Books, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return wire.Books{}, err
	}
	all, err := BooksOf(ctx, a.cfg.Views, c.Project.ID, q)
	return ViewOfBooks(all), err
}

// ListPostings answers GET /v1/balance/statement.
func (h Handlers) ListPostings(x *edge.Exchange) error {
	return replyList(x, h.api.Statement, h.api.StatementTable)
}

// postingList reads a request for postings.
func (a *API) postingList(c *Caller, values url.Values) (l edge.List, q books.JournalQuery, err error) {
	if err := a.Admit(c, projects.Read, nil); err != nil {
		return l, q, err
	}
	if l, err = edge.ParseList(values, "listPostings", c.Project.ID, "account", "currency", "from", "to", "order"); err != nil {
		return l, q, err
	}
	if q, err = JournalQuery(l); err != nil {
		return l, q, err
	}
	q.Project = c.Project.ID
	order, err := edge.OneOf(l.Filters, "order", []string{OldestFirst, NewestFirst})
	q.Newest = order == NewestFirst
	return l, q, err
}

// The orders of a statement; the first is the default.
const (
	OldestFirst = "oldest_first"
	NewestFirst = "newest_first"
)

// Statement lists the project's postings, oldest first unless the order says
// otherwise. Needs read.
func (a *API) Statement(ctx context.Context, c Caller, values url.Values) (page wire.Page[wire.Posting], err error) {
	l, q, err := a.postingList(&c, values)
	if err != nil {
		return page, err
	}
	found, err := a.cfg.Views.Journal(ctx, q)
	if err != nil {
		return page, err
	}
	rows := make([]wire.Posting, len(found.Lines))
	for i, line := range found.Lines {
		rows[i] = StatementOf(line)
	}
	return edge.PageOf(l, rows, PlaceAfter(found)), nil
}

// Fees are what providers' fees have taken of what is owed to the merchant, by currency, in the time of
// a request for postings. Needs read.
func (a *API) Fees(ctx context.Context, c Caller, values url.Values) (map[domain.Currency]domain.Sum, error) {
	_, q, err := a.postingList(&c, values)
	if err != nil {
		return nil, err
	}
	q.After = books.JournalPlace{} // of a page
	return a.cfg.Views.Fees(ctx, q)
}

// BooksOf reads as_of and returns the books of that moment, of one project or,
// with "", of all.
func BooksOf(ctx context.Context, views *projections.Engine, project string, q edge.Query) (books.Balances, error) {
	as, err := asOf(q)
	if err != nil {
		return books.Balances{}, err
	}
	all, err := views.Balances(ctx, project, as)
	if ahead, ok := errors.AsType[*books.AheadError](err); ok {
		err = edge.BadParameter("as_of", "The log ends at position "+PositionText(ahead.Last)+".")
	}
	return all, err
}

// PositionText is a position in decimal.
func PositionText(p eventstore.Position) string { return strconv.FormatUint(uint64(p), 10) }

// asOf reads a position, which has only digits, or a time.
func asOf(q edge.Query) (books.AsOf, error) {
	const name = "as_of"
	s := q[name]
	if !q.Has(name) {
		return books.AsOf{}, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil && strconv.FormatUint(n, 10) == s {
		return books.AsOfPosition(eventstore.Position(n)), nil
	}
	var t domain.Instant
	if err := t.UnmarshalText([]byte(s)); err != nil || t < 0 {
		return books.AsOf{}, edge.BadParameter(name,
			"Send a time such as 2026-11-20T10:15:30Z (in an offset write + as %2B) or a position of the log such as 88417.")
	}
	return books.AsOfTime(t), nil
}

// ViewOfBooks are balances as they are answered, by currency.
func ViewOfBooks(b books.Balances) wire.Books {
	v := wire.Books{Position: uint64(b.Position), Balances: ByCurrency(b.Balances)}
	if b.Position > 0 {
		v.Time = &b.Time
	}
	return v
}

// ByCurrency groups balances that are in order of currency.
func ByCurrency(all []books.Balance) []wire.CurrencyBooks {
	out := []wire.CurrencyBooks{}
	for _, b := range all {
		if len(out) == 0 || out[len(out)-1].Currency != b.Currency {
			out = append(out, wire.CurrencyBooks{Currency: b.Currency})
		}
		c := &out[len(out)-1]
		c.Accounts = append(c.Accounts, wire.AccountBalance{Account: b.Account, Balance: b.Balance})
		c.Total = c.Total.Add(b.Balance)
	}
	return out
}

// JournalQuery reads the filters of a statement.
func JournalQuery(req edge.List) (q books.JournalQuery, err error) {
	f := req.Filters
	q.Limit = req.Limit
	if q.Account = domain.Account(f["account"]); f.Has("account") && !q.Account.Known() {
		return q, edge.BadParameter("account",
			"Send merchant_payable, refunds_in_flight, disputes_held, suspense, operator, provider_fees, settlement_suspense, bank, losses, or acquirer_receivable: or settlement_transit: and the name of a route.")
	}
	if q.Currency = domain.Currency(f["currency"]); f.Has("currency") && q.Currency == "" {
		return q, edge.BadParameter("currency", "Send a currency such as RUB.")
	}
	if q.From, err = f.Instant("from"); err != nil {
		return q, err
	}
	if q.To, err = f.Instant("to"); err != nil {
		return q, err
	}
	if req.After != "" {
		if q.After, err = parsePlace(req.After); err != nil {
			return q, wire.Problem{Code: domain.InvalidCursor}
		}
	}
	return q, nil
}

// PlaceAfter is the place of a page's last line, "" when nothing follows.
func PlaceAfter(p books.JournalPage) string {
	if !p.More || len(p.Lines) == 0 {
		return ""
	}
	at := p.Lines[len(p.Lines)-1].Place()
	return PositionText(at.Position) + " " + url.QueryEscape(string(at.Currency)) + " " + string(at.Account) + " " + at.Project
}

func parsePlace(s string) (p books.JournalPlace, err error) {
	parts := strings.SplitN(s, " ", 4)
	if len(parts) != 4 {
		return p, errors.New("want a position, a currency, an account and a project")
	}
	n, err := strconv.ParseUint(parts[0], 10, 63)
	if err != nil {
		return p, err
	}
	currency, err := url.QueryUnescape(parts[1])
	return books.JournalPlace{
		Position: eventstore.Position(n), Currency: domain.Currency(currency), Account: domain.Account(parts[2]), Project: parts[3],
	}, err
}

// StatementOf is a line of the journal as it is answered.
func StatementOf(l books.JournalLine) wire.Posting {
	s := wire.Posting{
		Position: uint64(l.Position), Time: l.At, EventID: l.Event, EventType: l.Type,
		Account: l.Account, Currency: l.Currency, Amount: l.Amount, Balance: l.Balance,
	}
	if !l.Payment.IsZero() {
		s.PaymentID = &l.Payment
	}
	if !l.Refund.IsZero() {
		s.RefundID = &l.Refund
	}
	s.Reference = cmp.Or(l.Payout.Reference, l.Report)
	return s
}
