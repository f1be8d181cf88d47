package admincmd

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/exit"
	"payledger/domain"
)

// Sandbox groups the commands that play the payment provider.
type Sandbox struct {
	Pay        payCmd        `cmd:"" help:"The customer paid."`
	Fail       failCmd       `cmd:"" help:"The payment failed."`
	Expire     expireCmd     `cmd:"" help:"The provider let the payment expire."`
	Succeed    succeedCmd    `cmd:"" help:"The refund reached the customer."`
	FailRefund failRefundCmd `cmd:"" help:"The refund could not be made."`
}

// Help is shown by --help.
func (Sandbox) Help() string {
	return `The sandbox decides nothing by itself: payments and refunds wait for their outcome
from the payment page, the sandbox endpoints or these commands. They need a server
that runs with --sandbox (as the demo does) on the data directory, and send the same
signals a provider would.`
}

type sandboxPayment struct {
	console.Directory
	PaymentID string `arg:"" help:"Payment to decide on."`
}

type sandboxRefund struct {
	console.Directory
	RefundID string `arg:"" help:"Refund to decide on."`
}

type (
	payCmd        struct{ sandboxPayment }
	failCmd       struct{ sandboxPayment }
	expireCmd     struct{ sandboxPayment }
	succeedCmd    struct{ sandboxRefund }
	failRefundCmd struct{ sandboxRefund }
)

// Run sends the outcome.
func (c payCmd) Run(a *console.App) error {
	return decide(a, c.Directory, "payments", c.PaymentID, "paid")
}

// Run sends the outcome.
func (c failCmd) Run(a *console.App) error {
	return decide(a, c.Directory, "payments", c.PaymentID, "failed")
}

// Run sends the outcome.
func (c expireCmd) Run(a *console.App) error {
	return decide(a, c.Directory, "payments", c.PaymentID, "expired")
}

// Run sends the outcome.
func (c succeedCmd) Run(a *console.App) error {
	return decide(a, c.Directory, "refunds", c.RefundID, "succeeded")
}

// Run sends the outcome.
func (c failRefundCmd) Run(a *console.App) error {
	return decide(a, c.Directory, "refunds", c.RefundID, "failed")
}

func decide(a *console.App, c console.Directory, kind, id, outcome string) error {
	return c.With(a, func(m *adminclient.Client) error {
		if !m.Live {
			return fmt.Errorf("no server runs on %s, so nothing would act on the outcome: start one with \"payledger serve --sandbox --data %s\"", c.Data, c.Data)
		}
		var object jsontext.Value
		path := "/admin/sandbox/" + kind + "/" + url.PathEscape(id)
		err := m.Call(a.Ctx, http.MethodPost, path, map[string]string{"outcome": outcome}, &object)
		if adminclient.RefusedFor(err, domain.PathNotFound) {
			return exit.With(exit.Refused, "the server on %s has no sandbox: start it with --sandbox", c.Data)
		}
		if err != nil {
			return err
		}
		return a.Print(object, "%s is %s.\n", id, outcome)
	})
}
