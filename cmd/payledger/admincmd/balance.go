// Package admincmd has the commands that ask a running server through its
// admin interface, or open a stopped data directory in its place.
package admincmd

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/httpapi/wire"
)

// Balance prints the books: balances, a statement or late funds.
type Balance struct {
	console.Directory
	Project   string `help:"Only the books of this project." placeholder:"PROJECT_ID"`
	AsOf      string `help:"Balances as of a time (2026-11-20T10:15:30Z) or a position of the log (88417)." placeholder:"TIME|POSITION"`
	Statement bool   `help:"Print every posting with the balance after it, oldest first."`
	LateFunds bool   `help:"Print the money that could not count as its payment."`
	Account   string `help:"Postings of this account only: merchant_payable, refunds_in_flight, suspense, operator, acquirer_receivable:ROUTE."`
	Currency  string `help:"Postings in this currency only." placeholder:"CODE"`
	From      string `help:"Postings at this time or later." placeholder:"TIME"`
	To        string `help:"Postings before this time." placeholder:"TIME"`
}

// Help is shown by --help.
func (Balance) Help() string {
	return `The books in double entry: what acquirers owe (acquirer_receivable:ROUTE), what is owed
to merchants (merchant_payable), refunds under way (refunds_in_flight) and late funds that
await you (suspense). Debits are positive, credits negative; each currency adds up to zero.

A time stands for everything before the first event of a later time, so that the books of
a time no longer change once the log has gone beyond it.

With --json, balances are one object, and --statement and --late-funds print a line for
each posting.`
}

// Validate refuses flags that would have no effect.
func (c Balance) Validate() error {
	switch {
	case c.Statement && c.LateFunds:
		return errors.New("--statement and --late-funds: choose one")
	case c.AsOf != "" && (c.Statement || c.LateFunds):
		return errors.New("--as-of is for balances: end a list of postings with --to")
	case c.Account != "" && c.LateFunds:
		return errors.New("--account: late funds are all on suspense")
	case c.Account+c.Currency+c.From+c.To != "" && !c.Statement && !c.LateFunds:
		return errors.New("--account, --currency, --from and --to are for postings: add --statement")
	}
	return nil
}

// Run prints balances or postings.
func (c Balance) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		switch {
		case c.Statement:
			return c.postings(a, m, "/admin/balance/statement")
		case c.LateFunds:
			return c.postings(a, m, "/admin/balance/late-funds")
		}
		return c.balances(a, m)
	})
}

func (c Balance) balances(a *console.App, m *adminclient.Client) error {
	q := url.Values{}
	setUnlessEmpty(q, "project", c.Project)
	setUnlessEmpty(q, "as_of", c.AsOf)
	var raw jsontext.Value
	if err := m.Call(a.Ctx, http.MethodGet, "/admin/balance?"+q.Encode(), nil, &raw); err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(raw)
	}
	var books wire.AllBooks
	if err := decode(raw, &books); err != nil {
		return err
	}
	if books.Position == 0 {
		_, err := fmt.Fprintln(a.Stdout, "Before the first event: nothing is booked.")
		return err
	}
	fmt.Fprintf(a.Stdout, "As of position %d (%s)\n", books.Position, books.Time)
	var rows [][]string
	add := func(project string, all []wire.CurrencyBooks) {
		for _, of := range all {
			for _, b := range of.Accounts {
				rows = append(rows, []string{project, string(b.Account), string(of.Currency), b.Balance.String()})
			}
			rows = append(rows, []string{project, "total", string(of.Currency), of.Total.String()})
		}
	}
	for _, p := range books.Projects {
		add(p.ProjectID, p.Balances)
	}
	if len(books.Projects) > 1 {
		add("all projects", books.Balances)
	}
	return a.PrintTable("Nothing is booked.", []string{"PROJECT", "ACCOUNT", "CURRENCY", "BALANCE"}, rows)
}

// postings prints a list row by row, so that its length does not matter.
func (c Balance) postings(a *console.App, m *adminclient.Client, path string) error {
	q := url.Values{}
	for name, value := range map[string]string{
		"project": c.Project, "account": c.Account, "currency": c.Currency, "from": c.From, "to": c.To,
	} {
		setUnlessEmpty(q, name, value)
	}
	some := false
	err := list(a.Ctx, m, path, q, 0, func(raw jsontext.Value) error {
		some = true
		if a.JSON {
			return a.PrintJSON(raw)
		}
		var p wire.LateFunds // a posting, or more than that
		err := decode(raw, &p)
		switch {
		case err != nil:
		case c.LateFunds:
			_, err = fmt.Fprintf(a.Stdout, "%8d  %s  %s  %s  %s %s  %s  %s %q\n",
				p.Position, p.Time, p.ProjectID, p.PaymentID, strings.TrimPrefix(p.Amount.String(), "-"), p.Currency, p.Reason, p.Route, p.Reference)
		default:
			_, err = fmt.Fprintf(a.Stdout, "%8d  %s  %s  %s  %-18s %-30s %s %15s %15s\n",
				p.Position, p.Time, p.ProjectID, p.PaymentID, p.EventType, p.Account, p.Currency, p.Amount, p.Balance)
		}
		return err
	})
	if err == nil && !some && !a.JSON {
		none := "No postings."
		if c.LateFunds {
			none = "No late funds."
		}
		return a.Note(none)
	}
	return err
}
