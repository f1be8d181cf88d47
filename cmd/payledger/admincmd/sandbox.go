package admincmd

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
)

// Sandbox groups the commands that play the payment provider.
type Sandbox struct {
	Pay        payCmd        `cmd:"" help:"The customer paid."`
	Fail       failCmd       `cmd:"" help:"The payment failed."`
	Expire     expireCmd     `cmd:"" help:"The provider let the payment expire."`
	Succeed    succeedCmd    `cmd:"" help:"The refund reached the customer."`
	FailRefund failRefundCmd `cmd:"" help:"The refund could not be made."`

	ReturnRefund returnRefundCmd `cmd:"" help:"The refund had succeeded, and its money came back."`
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
	return Anyway{c.Directory}.open(a, func(m *cli.Client) error {
		if !m.Live {
			return fmt.Errorf("no server runs on %s, so nothing would act on the outcome: start one with \"payledger serve --sandbox --data %s\"", c.Data, c.Data)
		}
		err := fn(m)
		if cli.RefusedFor(err, domain.PathNotFound) {
			return cli.Errorf(cli.ExitRefused, "the server on %s has no sandbox: start it with --sandbox", c.Data)
		}
		return err
	})
}

type sandboxPayment struct {
	inSandbox
	PaymentID string `arg:"" help:"Payment to decide on." json:"id"`
}

func (c sandboxPayment) decide(a *cli.App, outcome string) error {
	c.Outcome = outcome
	return showOutcome(a, c, "POST /admin/sandbox/payments/{id}", c.PaymentID, outcome)
}

type sandboxRefund struct {
	inSandbox
	RefundID string `arg:"" help:"Refund to decide on." json:"id"`
}

func (c sandboxRefund) decide(a *cli.App, outcome string) error {
	c.Outcome = outcome
	return showOutcome(a, c, "POST /admin/sandbox/refunds/{id}", c.RefundID, outcome)
}

func showOutcome(a *cli.App, c command, line, id, outcome string) error {
	return show(a, c, line, func(object jsontext.Value) error { return a.Print(object, "%s is %s.\n", id, outcome) })
}

type (
	payCmd        struct{ sandboxPayment }
	failCmd       struct{ sandboxPayment }
	expireCmd     struct{ sandboxPayment }
	succeedCmd    struct{ sandboxRefund }
	failRefundCmd struct{ sandboxRefund }

	returnRefundCmd struct{ sandboxRefund }
)

// Run sends the outcome.
func (c payCmd) Run(a *cli.App) error { return c.decide(a, "paid") }

// Run sends the outcome.
func (c failCmd) Run(a *cli.App) error { return c.decide(a, "failed") }

// Run sends the outcome.
func (c expireCmd) Run(a *cli.App) error { return c.decide(a, "expired") }

// Run sends the outcome.
func (c succeedCmd) Run(a *cli.App) error { return c.decide(a, "succeeded") }

// Run sends the outcome.
func (c failRefundCmd) Run(a *cli.App) error { return c.decide(a, "failed") }

// Run sends the outcome.
func (c returnRefundCmd) Run(a *cli.App) error { return c.decide(a, "returned") }
