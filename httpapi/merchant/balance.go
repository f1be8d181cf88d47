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
	return replyList(x, h.api.Statement, whole[wire.Posting])
}

// The orders of a statement; the first is the default.
const (
	OldestFirst = "oldest_first"
	NewestFirst = "newest_first"
)

// Statement lists the project's postings, oldest first unless the order says otherwise. As CSV they have
// columns for debits and credits, as no cell may begin with a minus sign. Needs read.
func (a *API) Statement(c Caller, values url.Values) (Rows[wire.Posting], error) {
	all, q, err := a.postings(&c, values)
	all.next = func(ctx context.Context, limit int) (part []wire.Posting, last string, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Journal(ctx, q)
		part = make([]wire.Posting, len(found.Lines))
		for i, line := range found.Lines {
			q.After = line.Place()
			part[i] = StatementOf(line)
		}
		return part, PlaceAfter(found), err
	}
	zone := c.Calendar().Zone()
	all.columns = []string{
		"position", "time", "event_id", "event_type", "payment_id", "refund_id", "account", "currency",
		"debit", "credit", "balance", "balance_side", "description", "reference",
	}
	all.cells = func(ctx context.Context, part []wire.Posting) (lines [][]string, err error) {
		descriptions, err := a.Descriptions(ctx, c, func(yield func(domain.ID) bool) {
			for _, p := range part {
				if p.PaymentID != nil && !yield(*p.PaymentID) {
					return
				}
			}
		})
		for _, p := range part {
			payment, refund, description := "", "", ""
			if p.PaymentID != nil {
				payment, description = p.PaymentID.String(), descriptions[*p.PaymentID]
			}
			if p.RefundID != nil {
				refund = p.RefundID.String()
			}
			debit, credit := p.Amount.String(), ""
			if p.Amount.Sign() < 0 {
				debit, credit = "", p.Amount.Neg().String()
			}
			balance, side := sided(p.Balance)
			lines = append(lines, []string{
				strconv.FormatUint(p.Position, 10), p.Time.In(zone), p.EventID.String(), p.EventType, payment, refund, string(p.Account),
				string(p.Currency), debit, credit, balance, side, description, p.Reference,
			})
		}
		return lines, err
	}
	return all, err
}

// sided is the size of a balance and its side, "" for none.
func sided(s domain.Sum) (size, side string) {
	switch s.Sign() {
	case 1:
		return s.String(), "debit"
	case -1:
		return s.Neg().String(), "credit"
	}
	return s.String(), ""
}

// postings admits a caller and reads its request for postings.
func (a *API) postings(c *Caller, values url.Values) (all Rows[wire.Posting], q books.JournalQuery, err error) {
	if all, err = list[wire.Posting](a, c, values, "listPostings", "account", "currency", "from", "to", "order"); err != nil {
		return all, q, err
	}
	if q, err = JournalQuery(all.List); err != nil {
		return all, q, err
	}
	q.Project = c.Project.ID
	order, err := edge.OneOf(all.Filters, "order", []string{OldestFirst, NewestFirst})
	q.Newest = order == NewestFirst
	return all, q, err
}

// Fees are what providers' fees have taken of what is owed to the merchant, by currency, in the time of
// a request for postings. Needs read.
func (a *API) Fees(ctx context.Context, c Caller, values url.Values) (map[domain.Currency]domain.Sum, error) {
	_, q, err := a.postings(&c, values)
	if err != nil {
		return nil, err
	}
	q.After = books.JournalPlace{} // of a page
	return a.cfg.Views.Fees(ctx, q)
}

// BooksOf reads as_of and returns the books of that moment, of one project or,
// with "", of all.
func BooksOf(ctx context.Context, views *projections.Engine, project string, q edge.Query) (books.Balances, error) {
	as, err := asOf(ctx, views, q)
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

// asOf reads a position, which has only digits, or a time, and returns the position that it names.
func asOf(ctx context.Context, views *projections.Engine, q edge.Query) (eventstore.Position, error) {
	const name = "as_of"
	s := q[name]
	if !q.Has(name) {
		return books.Now, nil
	}
	if n, err := strconv.ParseUint(s, 10, 63); err == nil && strconv.FormatUint(n, 10) == s {
		return eventstore.Position(n), nil
	}
	var t domain.Instant
	if err := t.UnmarshalText([]byte(s)); err != nil || t < 0 {
		return 0, edge.BadParameter(name,
			"Send a time such as 2026-11-20T10:15:30Z (in an offset write + as %2B) or a position of the log such as 88417.")
	}
	return views.PositionAt(ctx, t)
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
