package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/cmd/payledger/service"
	"payledger/httpapi/account"
)

// demoCmd runs the service with a demo project.
type demoCmd struct {
	Data string `help:"Keep everything in this directory. Default: a temporary one, removed at the end." placeholder:"DIR"`

	Webhook    bool   `help:"Set up a webhook endpoint for \"payledger listen\" on this machine, print its secret and how to listen. Sets --webhook-allow-private."`
	Nodes      int    `help:"1, or 3: a cluster of three processes, any of which may be killed. --listen is the address of the first; the others have the next two ports. Default: 1." default:"1" enum:"1,3" placeholder:"N"`
	WebhookURL string `help:"The same for an endpoint of yours. Default with --webhook: http://127.0.0.1:8099/." placeholder:"URL" name:"webhook-url"`
	service.Flags
}

// Help is shown by --help.
func (demoCmd) Help() string {
	return `Everything is embedded and nothing leaves this machine: event log, NATS JetStream,
payment page, and a sandbox in place of the payment provider. With --data the demo
project and its payments are kept; each start issues a new API key and revokes the
one of the start before. The secret of --webhook changes likewise; a receiver that
knows the one before can continue with it for a day.

With --nodes 3 one of the processes can be killed: the other two continue within seconds,
nothing is lost, and ten seconds later it is started again.`
}

// Run serves until the process is asked to stop.
func (c demoCmd) Run(a *cli.App, flags *kong.Context) (err error) {
	c.Sandbox = true
	if c.Webhook && c.WebhookURL == "" {
		c.WebhookURL = listenURL
	}
	if c.WebhookURL != "" {
		c.WebhookAllowPrivate = true
	}
	if err := c.checkNodes(); err != nil {
		return err
	}
	reload, done := hangups(c.Flags)
	defer done()
	o, err := options(c.Flags, a, service.Options{}, zerolog.WarnLevel)
	if err != nil {
		return err
	}
	o.Reload = reload
	d, kept := datadir.Dir(c.Data), c.Data != ""
	if !kept {
		tmp, err := os.MkdirTemp("", "payledger-demo-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
		d = datadir.Dir(tmp)
	}
	if c.Nodes > 1 {
		return c.runNodes(a, d, kept, flags)
	}
	if _, err := os.Stat(d.Ledger()); errors.Is(err, fs.ErrNotExist) {
		if err := d.Initialise(); err != nil {
			return err
		}
	}
	return service.Run(a.Ctx, d, o, func(at service.Addresses) error {
		key, hook, err := c.setUp(a, d)
		if err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(struct {
				service.Addresses
				ProjectID  string `json:"project_id"`
				APIKey     string `json:"api_key"`
				AccountURL string `json:"account_url"`
				demoHook
			}{at, key.ProjectID, key.APIKey, at.BaseURL + account.Path, hook})
		}
		_, err = io.WriteString(a.Stdout, greeting(at, key, kept, hook))
		return err
	})
}

// greeting is what the demo prints for people. Its export lines set the
// variables that the commands of the README use.
func greeting(at service.Addresses, key demoKey, kept bool, hook demoHook) string {
	fate := "removed at the end"
	if kept {
		fate = "kept"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `payledger demo is ready. Everything runs in this process; Ctrl-C ends it.

  Base address  %[1]s
  API docs      %[1]s/docs
  Account       %[2]s (sign in with the project and the key)
  Project       %[3]s
  API key       %[4]s
  Verifier key  %[5]s
  Data          %[6]s (%[7]s)

For the commands of the README, paste this into another terminal:

`, at.BaseURL, at.BaseURL+account.Path, key.ProjectID, key.APIKey, at.VerifierKey, at.Data, fate)
	variables := [][2]string{{"BASE", at.BaseURL}, {"PROJECT_ID", key.ProjectID}, {"API_KEY", key.APIKey}, {"DATA", at.Data}}
	if addr, ok := hook.onThisMachine(); ok {
		variables = append(variables, [2]string{"WEBHOOK_ADDR", addr}, [2]string{"WEBHOOK_SECRET", hook.Secret})
	}
	exports(&b, variables)
	fmt.Fprintf(&b, `
Create a payment:

  curl -s %[1]s/v1/payments \
    -H 'Authorization: Bearer %[2]s:%[3]s' \
    -H 'Content-Type: application/json' \
    -d '{"amount":"1500.00","description":"order-1042"}'

Open the url of the answer's "instructions" in a browser and press Pay, then read the
payment at /v1/payments/ID. Watch the log:  %[4]s events tail --follow --data %[5]s
`, at.BaseURL, key.ProjectID, key.APIKey, process.Name(os.Args[0]), shellWord(at.Data))
	b.WriteString(hook.greeting(at))
	return b.String()
}

// exports prints lines that set variables of a shell.
func exports(b *strings.Builder, variables [][2]string) {
	for _, v := range variables {
		fmt.Fprintf(b, "  export %s=%s\n", v[0], shellWord(v[1]))
	}
}

// shellWord quotes a text so that a POSIX shell takes it as one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
