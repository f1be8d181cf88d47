package main

import (
	"fmt"
	"strings"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/routesfile"
	"payledger/domain"
	"payledger/notifier/connector/adapter"
	"payledger/notifier/connector/adapter/check"
	"payledger/notifier/connector/client"
)

// connectorCmd groups what helps to write an adapter.
type connectorCmd struct {
	Check   connectorCheckCmd   `cmd:"" help:"Judge an adapter, case by case."`
	OpenAPI connectorOpenAPICmd `cmd:"" name:"openapi" help:"Print the OpenAPI document of adapters."`
}

// Help is shown by --help.
func (connectorCmd) Help() string {
	return `An adapter is a program of yours, in any language, that connects payledger with a payment
provider: payledger begins attempts there, reads and cancels them and asks for refunds, over
signed HTTP. "payledger connector openapi" describes the calls.`
}

type connectorOpenAPICmd struct{}

// Run prints the document.
func (connectorOpenAPICmd) Run(a *cli.App) error {
	return a.Print(map[string]string{"document": string(adapter.OpenAPI)}, "%s", adapter.OpenAPI)
}

type connectorCheckCmd struct {
	URL        string          `arg:"" help:"The adapter, as it will be in the routes file."`
	SecretFile string          `help:"File with the secret that calls and answers are signed with, whsec_…" required:"" type:"existingfile" placeholder:"FILE"`
	Amount     domain.Amount   `help:"Amount of each attempt. Default: 150.00." default:"150.00" placeholder:"AMOUNT"`
	Currency   domain.Currency `help:"Currency of each attempt. Default: RUB." default:"RUB" placeholder:"CODE"`
	CallTime   time.Duration   `help:"Time that an answer may take. Default: 2s, as adapters are asked for; payledger waits 15s, and more than that has no effect." default:"2s" placeholder:"DURATION"`
}

// Help is shown by --help.
func (connectorCheckCmd) Help() string {
	return `Each line is one rule: ok, failed and why, or skipped. The exit code is 7 if one failed.

The check begins some thirty attempts, so the adapter should be connected with its
provider's test mode. What becomes of paid attempts is judged if the adapter offers /test in
its test mode, by which the check plays the customer; else those cases are skipped.

The secret: printf 'whsec_%s\n' "$(head -c 32 /dev/urandom | base64)" > adapter.secret`
}

// Run judges the adapter.
func (c connectorCheckCmd) Run(a *cli.App) error {
	if err := adapter.CheckURL(c.URL); err != nil {
		return cli.Errorf(cli.ExitUsage, "URL: %w", err)
	}
	keys, err := c.keys()
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--secret-file: %w", err)
	}
	if c.CallTime <= 0 {
		return cli.Errorf(cli.ExitUsage, "--call-time: want more than nothing")
	}
	n := make(map[check.Verdict]int)
	var broken error
	check.Run(a.Ctx, check.Config{
		URL: strings.TrimRight(c.URL, "/"), Keys: keys, HTTP: client.New(client.Config{AllowPrivate: true}), Now: time.Now, Amount: c.Amount, Currency: c.Currency, CallTime: c.CallTime,
	}, func(r check.Result) {
		n[r.Verdict]++
		text := fmt.Sprintf("%-8s %-19s %s\n", r.Verdict, r.Name, r.Rule)
		if r.Detail != "" {
			text += fmt.Sprintf("%-8s %-19s → %s\n", "", "", r.Detail)
		}
		if err := a.Print(r, "%s", text); err != nil && broken == nil {
			broken = err
		}
	})
	switch {
	case broken != nil:
		return broken
	case a.Ctx.Err() != nil:
		return a.Ctx.Err()
	case n[check.Failed] > 0:
		return cli.Errorf(cli.ExitVerify, "the adapter breaks %d of %d rules", n[check.Failed], n[check.OK]+n[check.Failed])
	}
	return nil
}

// maxSecretFile is far more than a secret has, in bytes.
const maxSecretFile = 4 << 10

func (c connectorCheckCmd) keys() (client.Keys, error) {
	secret, err := routesfile.ReadUpTo(c.SecretFile, maxSecretFile)
	if err != nil {
		return nil, err
	}
	return client.NewKeys(strings.TrimSpace(string(secret)))
}
