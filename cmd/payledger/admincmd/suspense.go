package admincmd

import (
	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Suspense groups the commands on money that the operator has to clear.
type Suspense struct {
	List   suspenseList   `cmd:"" help:"List the late funds that were not returned, and refunds by another hand."`
	Return suspenseReturn `cmd:"" help:"Have late funds returned to the customer."`
	Settle suspenseSettle `cmd:"" help:"Book money out of suspense that cannot be returned, or was."`
}

// Help is shown by --help.
func (Suspense) Help() string {
	return `Late funds are money that came and could not count as its payment: after the payment had
expired, a second time, or another amount. It is the customer's: return it. A refund by
another hand was made in the provider's own account; it changes no status, and what it
means is between you and the merchant: settle it.`
}

type suspenseList struct {
	Reads
	Whole
	Project string `help:"Only payments of this project." placeholder:"PROJECT_ID" json:"project,omitzero"`
}

// Help is shown by --help.
func (suspenseList) Help() string {
	return `The oldest payment comes first. STATE is open; return_failed, after a return that the
provider refused: another one may be made; refunded_at_provider, by another hand; or rest,
late funds of which another hand has returned a part. The last two are settled.
Money that is being returned is not listed. All that ever came: payledger balance --late-funds.`
}

// Run lists the money.
func (c suspenseList) Run(a *cli.App) error {
	return table(a, c, "GET /admin/suspense", "Nothing is in suspense.",
		"PROJECT, PAYMENT, REFERENCE, AMOUNT, CURRENCY, SINCE, STATE, REASON", func(s wire.Suspense) []any {
			why := s.Reason
			if s.ReturnReason != "" {
				why += ", " + s.ReturnReason
			}
			return []any{s.ProjectID, s.PaymentID, s.Reference, s.Amount, s.Currency, s.Since, s.State, why}
		})
}

type suspenseReturn struct {
	Anyway
	PaymentID string `arg:"" help:"Payment that the money came for." json:"payment_id"`
	Reference string `arg:"" help:"Reference of the money, as \"suspense list\" shows it." json:"reference"`
}

// Help is shown by --help.
func (suspenseReturn) Help() string {
	return `The whole amount goes back through the route's connector, which is followed until the
provider has said the end; "payments get" shows it. Repeated, the command shows the return
that there is: the money goes back once. On a directory without a server the return is
recorded, and made once a server runs.`
}

// Run asks for the return.
func (c suspenseReturn) Run(a *cli.App) error {
	return show(a, c, "POST /admin/payments/{payment_id}/returns", func(r domain.Return) error {
		return a.Print(r, "Return %s of %s %s is %s.\n", r.ID, r.Amount, r.Currency, r.Status)
	})
}

type suspenseSettle struct {
	Anyway
	PaymentID string         `arg:"" help:"Payment that the money is of." json:"payment_id"`
	Reference string         `arg:"" help:"Reference of the money, as \"suspense list\" shows it." json:"reference"`
	Against   domain.Account `help:"Whose the money is: merchant or operator." enum:"merchant,operator" required:"" placeholder:"WHOSE" json:"against"`
	Reason    string         `help:"Why, for the auditor: up to 256 characters. It stays in the log for good." required:"" placeholder:"TEXT" json:"reason"`
	Currency  string         `help:"Which, if money of the reference lies there in several." placeholder:"CODE" json:"currency,omitzero"`
}

// Help is shown by --help.
func (suspenseSettle) Help() string {
	return `Moves no money but in the books: use it for what has been moved already. Against the
merchant: money of a paid payment that another hand has returned is taken from what is owed
to the merchant, and late funds that the merchant takes as payment are added to it. Against
the operator: what you bear, or keep, or have returned by other means. Repeated, the command
shows what was settled.`
}

// Run settles the money.
func (c suspenseSettle) Run(a *cli.App) error {
	if c.Against == "merchant" {
		c.Against = domain.MerchantPayable
	}
	return show(a, c, "POST /admin/payments/{payment_id}/settlements", func(s domain.Settlement) error {
		return a.Print(s, "Settled: %s %s, debit %s, credit %s.\n", s.Amount, s.Currency, s.Debit, s.Credit)
	})
}
