package admincmd

import (
	"payledger/cmd/payledger/cli"
	"payledger/httpapi/wire"
)

// Payout groups the commands that record payouts.
type Payout struct {
	Arrived  payoutArrived  `cmd:"" help:"A provider's payout has arrived at your bank."`
	Merchant payoutMerchant `cmd:"" help:"You have paid a merchant what it is owed."`
	Undo     payoutUndo     `cmd:"" help:"Book back a payout that was recorded wrongly."`
	List     payoutList     `cmd:"" help:"List what has arrived and what was paid to merchants."`
}

// Help is shown by --help.
func (Payout) Help() string {
	return `No money is moved: record what the bank says. What a provider pays out moves in the books
from settlement_transit to bank, what you pay a merchant from merchant_payable to bank. The
reference of the transfer names a payout: repeated with it, a command records nothing, and
another amount is refused.`
}

// transfer is a transfer at the bank.
type transfer struct {
	Amount    string `help:"How much." required:"" placeholder:"AMOUNT" json:"amount"`
	Currency  string `help:"In which currency. Default: RUB." default:"RUB" placeholder:"CODE" json:"currency"`
	Reference string `help:"The reference of the transfer at the bank." required:"" placeholder:"TEXT" json:"reference"`
}

type payoutArrived struct {
	Anyway
	Route  string `help:"Route whose provider has paid." required:"" placeholder:"ROUTE" json:"route"`
	Report string `help:"Id of the report that the payout is for." required:"" placeholder:"ID" json:"report"`
	transfer
}

// Run records the payout.
func (c payoutArrived) Run(a *cli.App) error {
	return show(a, c, "POST /admin/payouts", func(p wire.OperatorsPayout) error {
		return a.Print(p, "Arrived: %s %s for report %s of %s, %s.\n", p.Amount, p.Currency, p.Report, p.Route, p.Reference)
	})
}

type payoutMerchant struct {
	OfProject
	transfer
}

// Help is shown by --help.
func (payoutMerchant) Help() string {
	return `A merchant is paid no more than it is owed (merchant_payable), which the answer to a larger
amount says. It sees the payout in its account and API.`
}

// Run records the payout.
func (c payoutMerchant) Run(a *cli.App) error {
	return show(a, c, "POST /admin/projects/{project}/payouts", func(p wire.OperatorsPayout) error {
		return a.Print(p, "Paid to the merchant: %s %s, %s.\n", p.Amount, p.Currency, p.Reference)
	})
}

type payoutUndo struct {
	Anyway
	ID     string `arg:"" help:"Id of the payout." json:"id"`
	Reason string `help:"Why, for the auditor; a merchant sees the reason of a payout to it." required:"" placeholder:"TEXT" json:"reason"`
}

// Help is shown by --help.
func (payoutUndo) Help() string {
	return `The payout stays in the log and in all lists, marked as undone, with who did it and why; what it
moved in the books is moved back. Its reference may be used again: record the payout as it
was. "payledger payout list" shows ids. A payout is undone once; repeated, the command changes
nothing.`
}

// Run undoes the payout.
func (c payoutUndo) Run(a *cli.App) error {
	return show(a, c, "POST /admin/payouts/{id}/undo", func(p wire.OperatorsPayout) error {
		return a.Print(p, "Undone: %s %s, %s: %s\n", p.Amount, p.Currency, p.Reference, p.Undone.Reason)
	})
}

type payoutList struct {
	Reads
	Whole
	Project  string `help:"Only those to the merchant of this project." placeholder:"PROJECT_ID" json:"project,omitzero"`
	Currency string `help:"Only in this currency." placeholder:"CODE" json:"currency,omitzero"`
	From     string `help:"Recorded at this time or later." placeholder:"TIME" json:"from,omitzero"`
	To       string `help:"Recorded before this time." placeholder:"TIME" json:"to,omitzero"`
}

// Run lists the payouts.
func (c payoutList) Run(a *cli.App) error {
	return table(a, c, "GET /admin/payouts", "No payouts.", "TIME, FROM, TO, AMOUNT, CURRENCY, REFERENCE, REPORT, ID, UNDONE", func(p wire.OperatorsPayout) []any {
		from, to := p.Route, "bank"
		if from == "" {
			from, to = "bank", p.ProjectID
		}
		undone := ""
		if u := p.Undone; u != nil {
			undone = u.At.String() + " " + u.By + ": " + u.Reason
		}
		return []any{p.CreatedAt, from, to, p.Amount, p.Currency, p.Reference, p.Report, p.ID, undone}
	})
}
