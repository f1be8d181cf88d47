package admincmd

import (
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Suspense groups the commands on money that the operator has to clear.
type Suspense struct {
	List   suspenseListCmd   `cmd:"" help:"List the late funds that nobody has returned, and refunds by another hand."`
	Return suspenseReturnCmd `cmd:"" help:"Have late funds returned to the customer."`
	Settle suspenseSettleCmd `cmd:"" help:"Book money out of suspense that cannot be returned, or was."`
}

// Help is shown by --help.
func (Suspense) Help() string {
	return `Late funds are money that came and could not count as its payment: after the payment had
expired, a second time, or another amount. It is the customer's: return it. A refund by
another hand was made in the provider's own account; it changes no status, and what it
means is between you and the merchant: settle it.`
}

type suspenseListCmd struct {
	console.Directory
	Project string `help:"Only payments of this project." placeholder:"PROJECT_ID"`
}

// Help is shown by --help.
func (suspenseListCmd) Help() string {
	return `The oldest payment comes first. STATE is open; return_failed, after a return that the
provider refused: another one may be made; refunded_at_provider, by another hand; or rest,
late funds of which another hand has returned a part. The last two are settled.
Money that is being returned is not listed. All that ever came: payledger balance --late-funds.`
}

// Run lists the money.
func (c suspenseListCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		q := url.Values{}
		setUnlessEmpty(q, "project", c.Project)
		var rows [][]string
		err := list(a.Ctx, m, "/admin/suspense", q, 0, func(raw jsontext.Value) error {
			if a.JSON {
				return a.PrintJSON(raw)
			}
			var s wire.Suspense
			if err := decode(raw, &s); err != nil {
				return err
			}
			why := s.Reason
			if s.ReturnReason != "" {
				why += ", " + s.ReturnReason
			}
			rows = append(rows, []string{
				s.ProjectID, s.PaymentID.String(), s.Reference, s.Amount.String(), string(s.Currency), s.Since.String(), s.State, why,
			})
			return nil
		})
		if err != nil || a.JSON {
			return err
		}
		return a.PrintTable("Nothing is in suspense.", []string{"PROJECT", "PAYMENT", "REFERENCE", "AMOUNT", "CURRENCY", "SINCE", "STATE", "REASON"}, rows)
	})
}

type suspenseReturnCmd struct {
	console.Directory
	PaymentID string `arg:"" help:"Payment that the money came for."`
	Reference string `arg:"" help:"Reference of the money, as \"suspense list\" shows it."`
}

// Help is shown by --help.
func (suspenseReturnCmd) Help() string {
	return `The whole amount goes back through the route's connector, which is followed until the
provider has said the end; "payments get" shows it. Repeated, the command shows the return
that there is: the money goes back once. On a directory without a server the return is
recorded, and made once a server runs.`
}

// Run asks for the return.
func (c suspenseReturnCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		body := struct {
			Reference string `json:"reference"`
		}{c.Reference}
		var r domain.Return
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/payments/"+url.PathEscape(c.PaymentID)+"/returns", body, &r); err != nil {
			return err
		}
		return a.Print(r, "Return %s of %s %s is %s.\n", r.ID, r.Amount, r.Currency, r.Status)
	})
}

type suspenseSettleCmd struct {
	console.Directory
	PaymentID string `arg:"" help:"Payment that the money is of."`
	Reference string `arg:"" help:"Reference of the money, as \"suspense list\" shows it."`
	Against   string `help:"Whose the money is: merchant or operator." enum:"merchant,operator" required:"" placeholder:"WHOSE"`
	Reason    string `help:"Why, for the auditor: up to 256 characters. It stays in the log for good." required:"" placeholder:"TEXT"`
	Currency  string `help:"Which, if money of the reference lies there in several." placeholder:"CODE"`
}

// Help is shown by --help.
func (suspenseSettleCmd) Help() string {
	return `Moves no money but in the books: use it for what has been moved already. Against the
merchant: money of a paid payment that another hand has returned is taken from what is owed
to the merchant, and late funds that the merchant takes as payment are added to it. Against
the operator: what you bear, or keep, or have returned by other means. Repeated, the command
shows what was settled.`
}

// Run settles the money.
func (c suspenseSettleCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		wish := wire.Settle{Reference: c.Reference, Currency: domain.Currency(c.Currency), Against: domain.Operator, Reason: c.Reason}
		if c.Against == "merchant" {
			wish.Against = domain.MerchantPayable
		}
		var s domain.Settlement
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/payments/"+url.PathEscape(c.PaymentID)+"/settlements", wish, &s); err != nil {
			return err
		}
		return a.Print(s, "Settled: %s %s, debit %s, credit %s.\n", s.Amount, s.Currency, s.Debit, s.Credit)
	})
}
