package admincmd

import (
	"github.com/alecthomas/kong"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
)

// Sandbox groups the commands that play the payment provider.
type Sandbox struct {
	Pay          sandboxPayment `cmd:"" outcome:"paid" help:"The customer paid."`
	Fail         sandboxPayment `cmd:"" outcome:"failed" help:"The payment failed."`
	Expire       sandboxPayment `cmd:"" outcome:"expired" help:"The provider let the payment expire."`
	Succeed      sandboxRefund  `cmd:"" outcome:"succeeded" help:"The refund reached the customer."`
	FailRefund   sandboxRefund  `cmd:"" outcome:"failed" help:"The refund could not be made."`
	ReturnRefund sandboxRefund  `cmd:"" outcome:"returned" help:"The refund had succeeded, and its money came back."`
}

// Help is shown by --help.
func (Sandbox) Help() string {
	return `The sandbox decides nothing by itself: payments and refunds wait for their outcome
from the payment page, the sandbox endpoints or these commands. They need a server
that runs with --sandbox (as the demo does) on the data directory, and send the same
signals a provider would.`
}

// inSandbox is for commands that need a server with a sandbox.
type inSandbox struct {
	Directory
	Outcome string `kong:"-" json:"outcome"`
}

func (c inSandbox) open(a *cli.App, fn func(*cli.Client) error) error {
	err := c.Serving(a, " --sandbox", fn)
	if cli.RefusedFor(err, domain.PathNotFound) {
		return cli.Errorf(cli.ExitRefused, "the server on %s has no sandbox: start it with --sandbox", c.Data)
	}
	return err
}

type sandboxPayment struct {
	inSandbox
	PaymentID string `arg:"" help:"Payment to decide on." json:"id"`
}

// Run sends the outcome.
func (c sandboxPayment) Run(a *cli.App, k *kong.Context) error {
	c.Outcome = outcomeOf(k)
	return showOutcome(a, c, "POST /admin/sandbox/payments/{id}", c.PaymentID, c.Outcome)
}

type sandboxRefund struct {
	inSandbox
	RefundID string `arg:"" help:"Refund to decide on." json:"id"`
}

// Run sends the outcome.
func (c sandboxRefund) Run(a *cli.App, k *kong.Context) error {
	c.Outcome = outcomeOf(k)
	return showOutcome(a, c, "POST /admin/sandbox/refunds/{id}", c.RefundID, c.Outcome)
}

// outcomeOf is the outcome that the command is for.
func outcomeOf(k *kong.Context) string { return k.Selected().Tag.Get("outcome") }

func showOutcome(a *cli.App, c command, line, id, outcome string) error {
	return show(a, c, line, func(object jsontext.Value) error { return a.Print(object, "%s is %s.\n", id, outcome) })
}
