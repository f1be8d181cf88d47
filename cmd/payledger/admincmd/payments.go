package admincmd

import (
	"fmt"
	"net/http"
	"net/url"

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
	Get  paymentsGetCmd  `cmd:"" help:"Show a payment with its route, link and refunds."`
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
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: want 0 or more", c.Limit)
	}
	return c.Directory.Validate()
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
		for _, r := range p.Refunds {
			rows = append(rows, [2]string{"Refund", fmt.Sprintf("%s  %s  %s", r.ID, r.Status, r.CreatedAt)})
		}
		return a.PrintRows(rows)
	})
}
