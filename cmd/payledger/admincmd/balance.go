package admincmd

import (
	"errors"
	"fmt"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/httpapi/wire"
)

// Balance prints the books: balances, a statement or late funds.
type Balance struct {
	Reads
	Project   string `help:"Only the books of this project." placeholder:"PROJECT_ID" json:"project,omitzero"`
	AsOf      string `help:"Balances as of a time (2026-11-20T10:15:30Z) or a position of the log (88417)." placeholder:"TIME|POSITION" json:"as_of,omitzero"`
	Statement bool   `help:"Print every posting with the balance after it, oldest first." json:"-"`
	LateFunds bool   `help:"Print the money that could not count as its payment." json:"-"`
	Account   string `help:"Postings of this account only: merchant_payable, refunds_in_flight, disputes_held, suspense, operator, provider_fees, settlement_suspense, bank, losses, acquirer_receivable:ROUTE, settlement_transit:ROUTE." json:"account,omitzero"`
	Currency  string `help:"Postings in this currency only." placeholder:"CODE" json:"currency,omitzero"`
	From      string `help:"Postings at this time or later." placeholder:"TIME" json:"from,omitzero"`
	To        string `help:"Postings before this time." placeholder:"TIME" json:"to,omitzero"`
}

// Help is shown by --help.
func (Balance) Help() string {
	return `The books in double entry: what acquirers owe (acquirer_receivable:ROUTE), what is owed
to merchants (merchant_payable), refunds under way (refunds_in_flight), late funds that
await you (suspense), and what acquirers say that they have paid out
(settlement_transit:ROUTE), less their fees (provider_fees). What has arrived from them and was
not paid to merchants is on bank, in all books together. Lines of their reports that fit
nothing await you on settlement_suspense. What is of no project is in the books of
"installation". Debits are positive, credits negative; each currency adds up to zero.

A time means everything before the first event of a later time, so that the books of
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

// open reads no more of the log in a file than the books.
func (c Balance) open(a *cli.App, fn func(*cli.Client) error) error { return c.read(a, true, fn) }

// Run prints balances or postings.
func (c Balance) Run(a *cli.App) error {
	switch {
	case c.Statement:
		return c.postings(a, "GET /admin/balance/statement", "No postings.")
	case c.LateFunds:
		return c.postings(a, "GET /admin/balance/late-funds", "No late funds.")
	}
	return show(a, c, "GET /admin/balance", func(books wire.AllBooks) error {
		if books.Position == 0 {
			return a.Print(nil, "Before the first event: nothing is booked.\n")
		}
		fmt.Fprintf(a.Stdout, "As of position %d (%s)\n", books.Position, books.Time)
		var rows [][]string
		if len(books.Projects) > 1 {
			books.Projects = append(books.Projects, wire.ProjectBooks{ProjectID: "all projects", Balances: books.Balances})
		}
		for _, p := range books.Projects {
			for _, of := range p.Balances {
				for _, b := range of.Accounts {
					rows = append(rows, texts(p.ProjectID, b.Account, of.Currency, b.Balance))
				}
				rows = append(rows, texts(p.ProjectID, "total", of.Currency, of.Total))
			}
		}
		return a.PrintTable("Nothing is booked.", []string{"PROJECT", "ACCOUNT", "CURRENCY", "BALANCE"}, rows)
	})
}

// postings prints a list row by row, so that its length does not matter.
func (c Balance) postings(a *cli.App, line, none string) error {
	all := struct {
		Balance
		Whole
	}{Balance: c}
	return asking(a, all, line, func(m *cli.Client, r request) error {
		some := false
		err := each(a, m, r, func(p wire.LateFunds) (err error) { // a posting, or more than that
			some = true
			if c.LateFunds {
				return a.Print(p, "%8d  %s  %s  %s  %s %s  %s  %s %q\n",
					p.Position, p.Time, p.ProjectID, texts(p.PaymentID)[0], strings.TrimPrefix(p.Amount.String(), "-"), p.Currency, p.Reason, p.Route, p.Reference)
			}
			return a.Print(p, "%8d  %s  %s  %-26s  %-18s %-30s %s %15s %15s\n",
				p.Position, p.Time, p.ProjectID, texts(p.PaymentID)[0], p.EventType, p.Account, p.Currency, p.Amount, p.Balance)
		})
		if err == nil && !some && !a.JSON {
			return a.Note(none)
		}
		return err
	})
}
