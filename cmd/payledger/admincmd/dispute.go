package admincmd

import (
	"github.com/alecthomas/kong"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
)

// Dispute groups the commands that record disputes by hand.
type Dispute struct {
	Open disputeOpen `cmd:"" outcome:"disputed" help:"A customer disputes a payment, and the provider holds the money."`
	Won  disputed    `cmd:"" outcome:"dispute_won" help:"The dispute was decided for the merchant, or the money of a lost one is paid back."`
	Lost disputed    `cmd:"" outcome:"dispute_lost" help:"The dispute was decided for the customer."`
}

// Help is shown by --help.
func (Dispute) Help() string {
	return `Disputes come by themselves from Stripe, from lines of settlement reports, and as signals of
programs on NATS. What another provider says, and that a dispute of a report is lost, record by hand. The payment stays paid; while its dispute is open, and
when it is lost, it cannot be refunded. In the books an open dispute moves the money from the
merchant to disputes_held, a won one back, a lost one to the provider. One that was lost can
still be won: the provider pays the money back, and owes it to the merchant. The merchant is
notified. Repeated, a command shows the dispute that there is. To list disputed payments:
payledger payments list --disputed.`
}

type disputed struct {
	Anyway
	PaymentID string `arg:"" help:"Payment that is disputed." json:"payment_id"`
	Reference string `arg:"" help:"The provider's id of the dispute." json:"reference"`
	Outcome   string `kong:"-" json:"outcome"`
}

type disputeOpen struct {
	disputed
	Amount        string `help:"How much of the payment is disputed. Default: all of it." placeholder:"AMOUNT" json:"amount,omitzero"`
	Reason        string `help:"The provider's reason, as a code of a-z, 0-9 and _." placeholder:"CODE" json:"reason,omitzero"`
	EvidenceDueBy string `help:"Until when the merchant can answer it (2026-11-20T10:15:30Z)." placeholder:"TIME" json:"evidence_due_by,omitzero"`
}

// Run records the dispute.
func (c disputeOpen) Run(a *cli.App, k *kong.Context) error {
	c.Outcome = outcomeOf(k)
	return showDispute(a, c)
}

// Run records the end.
func (c disputed) Run(a *cli.App, k *kong.Context) error {
	c.Outcome = outcomeOf(k)
	return showDispute(a, c)
}

func showDispute(a *cli.App, c command) error {
	return show(a, c, "POST /admin/payments/{payment_id}/disputes", func(d domain.Dispute) error {
		return a.Print(d, "Dispute %s of %s is %s.\n", d.Reference, d.Amount, d.Status)
	})
}
