package admincmd

import (
	"errors"
	"net/url"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/httpapi/wire"
)

type paymentsOpenCmd struct {
	console.Directory
	Route string `help:"Only what is open at the provider of this route." placeholder:"ROUTE"`
	Limit int    `help:"Show at most this many; 0: all." default:"50" placeholder:"N"`
}

// Validate refuses a limit that is none.
func (c paymentsOpenCmd) Validate() error {
	return errors.Join(checkLimit(c.Limit), c.Directory.Validate())
}

// Help is shown by --help.
func (paymentsOpenCmd) Help() string {
	return `The oldest payment comes first. KIND is attempt (has the customer paid?), cancel (an attempt
whose payment has ended), refund, or return (of late funds); WHAT is the attempt's number or
the id. TRIES, NEXT TRY and LAST ERROR are those of a running server, and count from its
start. All of it is followed until the provider has said the end: to ask about a payment
now, "payments ask PAYMENT_ID".`
}

// Run lists what is open.
func (c paymentsOpenCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		q := url.Values{}
		setUnlessEmpty(q, "route", c.Route)
		var rows [][]string
		err := list(a.Ctx, m, "/admin/payments/open", q, c.Limit, func(raw jsontext.Value) error {
			if a.JSON {
				return a.PrintJSON(raw)
			}
			var w wire.OpenWork
			if err := decode(raw, &w); err != nil {
				return err
			}
			next := "-"
			if w.NextTry != nil {
				next = w.NextTry.String()
			}
			rows = append(rows, []string{
				w.PaymentID.String(), w.Route, string(w.Kind), w.ID, w.Since.String(), strconv.Itoa(w.Tries), next, w.LastError,
			})
			return nil
		})
		if err != nil || a.JSON {
			return err
		}
		return a.PrintTable("Nothing is open at a provider.", []string{"PAYMENT", "ROUTE", "KIND", "WHAT", "SINCE", "TRIES", "NEXT TRY", "LAST ERROR"}, rows)
	})
}
