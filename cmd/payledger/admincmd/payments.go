package admincmd

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Payments groups the commands that show payments.
type Payments struct {
	List paymentsListCmd `cmd:"" help:"List a project's payments, newest first."`
	Get  paymentsGetCmd  `cmd:"" help:"Show a payment with its route, link, attempts and refunds."`
	Find paymentsFindCmd `cmd:"" help:"Find the payment that a provider knows under a reference."`
	Open paymentsOpenCmd `cmd:"" help:"List what is open at providers: attempts, refunds, returns of late funds."`
	Ask  paymentsAskCmd  `cmd:"" help:"Ask the provider now what has become of a payment."`
}

type paymentsListCmd struct {
	ofProject
	Status      string `help:"Only payments in this status: created, awaiting_payment, paid, expired, failed." placeholder:"STATUS"`
	Currency    string `help:"Only payments in this currency." placeholder:"CODE"`
	Description string `help:"Only payments with exactly this description." placeholder:"TEXT"`
	From        string `help:"Only payments created at this time (2026-11-20T10:15:30Z) or later." placeholder:"TIME"`
	To          string `help:"Only payments created before this time." placeholder:"TIME"`
	Limit       int    `help:"Show at most this many; 0: all." default:"50" placeholder:"N"`
}

// Validate refuses a limit that is none.
func (c paymentsListCmd) Validate() error {
	return errors.Join(checkLimit(c.Limit), c.Directory.Validate())
}

// Run lists the payments.
func (c paymentsListCmd) Run(a *console.App) error {
	return c.withProject(a, service.CoreOptions{Reading: true}, func(m *adminclient.Client, path string) error {
		q := url.Values{}
		for name, value := range map[string]string{
			"status": c.Status, "currency": c.Currency, "description": c.Description, "created_from": c.From, "created_to": c.To,
		} {
			setUnlessEmpty(q, name, value)
		}
		var rows [][]string
		err := list(a.Ctx, m, path+"/payments", q, c.Limit, func(raw jsontext.Value) error {
			if a.JSON {
				return a.PrintJSON(raw)
			}
			var p domain.PaymentObject
			if err := decode(raw, &p); err != nil {
				return err
			}
			rows = append(rows, []string{p.ID.String(), p.CreatedAt.String(), string(p.Status), p.Amount.String(), string(p.Currency), oneLine(p.Description)})
			return nil
		})
		if err != nil || a.JSON {
			return err
		}
		return a.PrintTable("No payments.", []string{"PAYMENT", "CREATED", "STATUS", "AMOUNT", "CURRENCY", "DESCRIPTION"}, rows)
	})
}

// oneLine is a merchant's text, which may hold anything but control characters.
func oneLine(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

type paymentsGetCmd struct {
	console.Directory
	PaymentID string `arg:"" help:"Payment to show."`
}

// Help is shown by --help.
func (paymentsGetCmd) Help() string {
	return `What happened to it, event by event: payledger events tail --payment PAYMENT_ID.`
}

// Run shows the payment.
func (c paymentsGetCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		var raw jsontext.Value
		if err := m.Call(a.Ctx, http.MethodGet, "/admin/payments/"+url.PathEscape(c.PaymentID), nil, &raw); err != nil {
			return err
		}
		return printPayment(a, raw)
	})
}

func printPayment(a *console.App, raw jsontext.Value) error {
	if a.JSON {
		return a.PrintJSON(raw)
	}
	var p wire.OperatorsPayment
	if err := decode(raw, &p); err != nil {
		return err
	}
	rows := [][2]string{
		{"Payment", p.Payment.ID.String()},
		{"Project", p.ProjectID},
		{"Status", string(p.Payment.Status)},
		{"Amount", p.Payment.Amount.String() + " " + string(p.Payment.Currency)},
		{"Description", oneLine(p.Payment.Description)},
		{"Payload", string(p.Payment.Payload)},
		{"Created", p.Payment.CreatedAt.String()},
		{"Expires", p.ExpiresAt.String()},
		{"Route", oneLine(p.Route)},
		{"Failed for", oneLine(p.FailureReason)},
		{"Link", p.Link},
	}
	add := func(name string, words ...string) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
		rows = append(rows, [2]string{name, strings.Join(words, "  ")})
	}
	for _, t := range p.Attempts {
		add("Attempt "+strconv.Itoa(t.Number), string(t.Status), t.BegunAt.String(), t.Reference, string(t.HandOff), t.Reason)
	}
	for _, r := range p.Refunds {
		add("Refund", r.ID.String(), string(r.Status), r.CreatedAt.String())
	}
	for _, f := range p.LateFunds {
		add("Late funds", f.Reference, f.Amount.String()+" "+string(f.Currency), f.Reason)
	}
	for _, r := range p.Returns {
		add("Return", r.ID.String(), string(r.Status), r.CreatedAt.String(), r.Reference, r.Amount.String()+" "+string(r.Currency))
	}
	for _, r := range p.ProviderRefunds {
		add("Refunded at the provider", r.RefundReference, r.Reference, r.Amount.String()+" "+string(r.Currency))
	}
	for _, s := range p.Settlements {
		add("Settled", s.Reference, s.Amount.String()+" "+string(s.Currency), "debit "+string(s.Debit), "credit "+string(s.Credit), s.Reason)
	}
	return a.PrintRows(rows)
}

type paymentsFindCmd struct {
	console.Directory
	Reference string `help:"The provider's id of the attempt that collects or collected the money." required:"" placeholder:"REFERENCE"`
	Route     string `help:"Only payments of this route." placeholder:"ROUTE"`
}

// Help is shown by --help.
func (paymentsFindCmd) Help() string {
	return `References are those of attempts, and of all money that was booked, late funds too. They are
compared exactly.`
}

// Run finds the payments.
func (c paymentsFindCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		q := url.Values{"reference": {c.Reference}}
		setUnlessEmpty(q, "route", c.Route)
		var found wire.Page[jsontext.Value]
		if err := m.Call(a.Ctx, http.MethodGet, "/admin/payments?"+q.Encode(), nil, &found); err != nil {
			return err
		}
		var rows [][]string
		for _, raw := range found.Data {
			if a.JSON {
				if err := a.PrintJSON(raw); err != nil {
					return err
				}
				continue
			}
			var p wire.OperatorsPayment
			if err := decode(raw, &p); err != nil {
				return err
			}
			rows = append(rows, []string{
				p.Payment.ID.String(), p.ProjectID, oneLine(p.Route), string(p.Payment.Status), p.Payment.Amount.String(), string(p.Payment.Currency),
			})
		}
		if a.JSON {
			return nil
		}
		return a.PrintTable("No payment has this reference.", []string{"PAYMENT", "PROJECT", "ROUTE", "STATUS", "AMOUNT", "CURRENCY"}, rows)
	})
}

type paymentsAskCmd struct {
	console.Directory
	PaymentID string `arg:"" help:"Payment to ask about."`
}

// Help is shown by --help.
func (paymentsAskCmd) Help() string {
	return `Reads the open attempt, and refunds of money that was collected, without waiting for the
next regular look, and records what is new. It needs a server that runs on the data
directory.`
}

// Run asks and shows the payment.
func (c paymentsAskCmd) Run(a *console.App) error {
	return onServer(a, c.Directory, func(m *adminclient.Client) error {
		var raw jsontext.Value
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/payments/"+url.PathEscape(c.PaymentID)+"/ask", nil, &raw); err != nil {
			return err
		}
		return printPayment(a, raw)
	})
}

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
