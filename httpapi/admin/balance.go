package admin

import (
	"cmp"
	"net/http"
	"slices"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
	"payledger/projections/books"
)

// balance answers GET /admin/balance: the books of one project or of all.
func (a *admin) balance(x *edge.Exchange) error {
	q, err := x.Query("project", "as_of")
	if err != nil {
		return err
	}
	if err := a.checkProject(x, q); err != nil {
		return err
	}
	all, err := merchant.BooksOf(x.Context(), a.cfg.Views, q["project"], q)
	if err != nil {
		return err
	}
	v := wire.AllBooks{Projects: []wire.ProjectBooks{}}
	for rest := all.Balances; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(b books.Balance) bool { return b.Project != rest[0].Project })
		if n < 0 {
			n = len(rest)
		}
		v.Projects = append(v.Projects, wire.ProjectBooks{ProjectID: rest[0].Project, Balances: merchant.ByCurrency(rest[:n])})
		rest = rest[n:]
	}
	all.Balances = together(all.Balances)
	v.Books = merchant.ViewOfBooks(all)
	return x.Reply(http.StatusOK, v)
}

// together adds up the balances of all projects.
func together(all []books.Balance) []books.Balance {
	sums := make(map[books.Balance]domain.Sum)
	for _, b := range all {
		of := books.Balance{Currency: b.Currency, Account: b.Account}
		sums[of] = sums[of].Add(b.Balance)
	}
	out := make([]books.Balance, 0, len(sums))
	for b, sum := range sums {
		b.Balance = sum
		out = append(out, b)
	}
	slices.SortFunc(out, func(a, b books.Balance) int {
		return cmp.Or(cmp.Compare(a.Currency, b.Currency), cmp.Compare(a.Account, b.Account))
	})
	return out
}

// checkProject refuses a project that does not exist; none is all, and the operator's books are as a project's.
func (a *admin) checkProject(x *edge.Exchange, q edge.Query) error {
	if !q.Has("project") || q["project"] == operatorsBooks {
		return nil
	}
	_, err := a.project(x, q["project"])
	return err
}

// statement answers GET /admin/balance/statement, oldest first.
func (a *admin) statement(x *edge.Exchange) error {
	return journal(a, x, "adminStatement", domain.Account(""), func(l books.JournalLine) (wire.ProjectPosting, bool, error) {
		return wire.ProjectPosting{ProjectID: l.Project, Posting: merchant.StatementOf(l)}, true, nil
	})
}

// lateFunds answers GET /admin/balance/late-funds, oldest first: what came, not what left suspense.
func (a *admin) lateFunds(x *edge.Exchange) error {
	return journal(a, x, "adminLateFunds", domain.Suspense, func(l books.JournalLine) (wire.LateFunds, bool, error) {
		v := wire.LateFunds{ProjectPosting: wire.ProjectPosting{ProjectID: l.Project, Posting: merchant.StatementOf(l)}}
		_, event, err := a.cfg.Views.EventAt(x.Context(), l.Position)
		if err != nil {
			return v, false, err
		}
		f, ok := event.(domain.PaymentLateFunds)
		v.Reason, v.Route, v.Reference, v.StartedAt = f.Reason, f.Signal.Route, f.Signal.Reference, f.Signal.StartedAt
		return v, ok, nil
	})
}

// journal answers a page of postings of one project or of all, of one account
// when that is given, else of the one the request names. row may leave one out.
func journal[T any](a *admin, x *edge.Exchange, operation string, account domain.Account, row func(books.JournalLine) (T, bool, error)) error {
	filters := []string{"project", "currency", "from", "to"}
	if account == "" {
		filters = append(filters, "account")
	}
	req, err := x.List(operation, "", filters...)
	if err != nil {
		return err
	}
	if err := a.checkProject(x, req.Filters); err != nil {
		return err
	}
	q, err := merchant.JournalQuery(req)
	if err != nil {
		return err
	}
	q.Project = req.Filters["project"]
	if account != "" {
		q.Account = account
	}
	found, err := a.cfg.Views.Journal(x.Context(), q)
	if err != nil {
		return err
	}
	rows := []T{}
	for _, l := range found.Lines {
		v, ok, err := row(l)
		if err != nil {
			return err
		}
		if ok {
			rows = append(rows, v)
		}
	}
	return edge.ReplyPage(x, edge.PageOf(req, rows, merchant.PlaceAfter(found)))
}
