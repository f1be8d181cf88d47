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
	WebhookURL string `help:"The same for an endpoint of yours. Default with --webhook: http://127.0.0.1:8099/." placeholder:"URL" name:"webhook-url"`
	Nodes      int    `help:"1, or 3: a cluster of three processes, any of which may be killed. --listen is the address of the first; the others have the next two ports. Default: 1." default:"1" enum:"1,3" placeholder:"N"`
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
nothing is lost, and ten seconds later it is started again. Whichever is asked, links in its
answers have the address of the one that leads, unless --public-url names one for all.`
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
	o, err := options(c.Flags, a, service.Options{}, zerolog.WarnLevel)
	if err != nil {
		return err
	}
	d := datadir.Dir(c.Data)
	if c.Data == "" {
		tmp, err := os.MkdirTemp("", "payledger-demo-")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
		d = datadir.Dir(tmp)
	}
	if c.Nodes > 1 {
		return c.runNodes(a, d, flags)
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
		return c.greet(a, at.Data, hook, ". Everything runs in this process; Ctrl-C ends it.", [][2]string{
			{"Base address", at.BaseURL},
			{"API docs", at.BaseURL + "/docs"},
			{"Account", at.BaseURL + account.Path + " (sign in with the project and the key)"},
			{"Project", key.ProjectID},
			{"API key", key.APIKey},
			{"Verifier key", at.VerifierKey},
			{"Data", at.Data + " (" + c.fate() + ")"},
		}, [][2]string{
			{"BASE", at.BaseURL}, {"PROJECT_ID", key.ProjectID}, {"API_KEY", key.APIKey}, {"DATA", at.Data},
		}, fmt.Sprintf(`Create a payment:

  curl -s %[1]s/v1/payments \
    -H 'Authorization: Bearer %[2]s:%[3]s' \
    -H 'Content-Type: application/json' \
    -d '{"amount":"1500.00","description":"order-1042"}'

Open the url of the answer's "instructions" in a browser and press Pay, then read the
payment at /v1/payments/ID.  `, at.BaseURL, key.ProjectID, key.APIKey))
	})
}

// fate is what becomes of the data.
func (c demoCmd) fate() string {
	if c.Data == "" {
		return "removed at the end"
	}
	return "kept"
}

// greet prints for people what there is and what to try with it on the directory. The variables are
// those that the commands of the README use.
func (c demoCmd) greet(a *cli.App, data string, hook demoHook, where string, rows, variables [][2]string, try string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "payledger demo is ready%s\n\n", where)
	for _, r := range rows {
		fmt.Fprintf(&b, "  %-12s  %s\n", r[0], r[1])
	}
	b.WriteString("\nFor the commands of the README, paste this into another terminal:\n\n")
	if addr, ok := hook.onThisMachine(); ok {
		variables = append(variables, [2]string{"WEBHOOK_ADDR", addr}, [2]string{"WEBHOOK_SECRET", hook.Secret})
	}
	for _, v := range variables {
		fmt.Fprintf(&b, "  export %s=%s\n", v[0], shellWord(v[1]))
	}
	fmt.Fprintf(&b, "\n%sWatch the log:  %s events tail --follow --data %s\n", try, process.Name(os.Args[0]), shellWord(data))
	b.WriteString(hook.greeting(data))
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

// shellWord quotes a text so that a POSIX shell takes it as one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
