package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/rs/zerolog"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/httpapi/account"
)

// demoCmd runs the service with a demo project.
type demoCmd struct {
	Data string `help:"Keep everything in this directory. Default: a temporary one, removed at the end." placeholder:"DIR"`

	Webhook    bool   `help:"Set up a webhook endpoint for \"payledger listen\" on this machine, print its secret and how to listen. Sets --webhook-allow-private."`
	WebhookURL string `help:"The same for an endpoint of yours. Default with --webhook: http://127.0.0.1:8099/." placeholder:"URL" name:"webhook-url"`
	serveFlags
}

// Help is shown by --help.
func (demoCmd) Help() string {
	return `Everything is embedded and nothing leaves this machine: event log, NATS JetStream,
payment page, and a sandbox in place of the payment provider. With --data the demo
project and its payments are kept; each start issues a new API key and revokes the
one of the start before. The secret of --webhook changes likewise; a receiver that
knows the one before can go on with it for a day.`
}

const demoName = "Demo shop"

// demoState is the content of demo.json.
type demoState struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`

	EndpointID string `json:"endpoint_id,omitzero"` // of --webhook
}

// Run serves until the process is asked to stop.
func (c demoCmd) Run(a *console.App) (err error) {
	c.Sandbox = true
	if c.Webhook && c.WebhookURL == "" {
		c.WebhookURL = listenURL
	}
	if c.WebhookURL != "" {
		c.WebhookAllowPrivate = true
	}
	reload, done := c.hangups()
	defer done()
	o, err := c.options(a, serveDefaults{logLevel: zerolog.WarnLevel})
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
	if _, err := os.Stat(d.Ledger()); errors.Is(err, fs.ErrNotExist) {
		if err := d.Initialise(); err != nil {
			return err
		}
	}
	return service.Run(a.Ctx, d, o, func(at service.Addresses) error {
		key, hook, err := c.setUp(a, d)
		if err != nil {
			return fmt.Errorf("setting up the demo project: %w", err)
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

// setUp makes or renews the demo's project, key and endpoint.
func (c demoCmd) setUp(a *console.App, d datadir.Dir) (admincmd.IssuedKey, demoHook, error) {
	ctx, cancel := context.WithTimeout(a.Ctx, datadir.AdminWait)
	defer cancel()
	m := adminclient.Of(d)
	var last demoState
	content, err := os.ReadFile(d.Demo())
	if err == nil {
		err = json.Unmarshal(content, &last)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return admincmd.IssuedKey{}, demoHook{}, fmt.Errorf("%s: %w; remove it to start with a new demo project", d.Demo(), err)
	}
	key, err := demoKey(ctx, m, last)
	if err != nil {
		return key, demoHook{}, err
	}
	now := demoState{key.ProjectID, key.KeyID, ""}
	if key.ProjectID == last.ProjectID {
		now.EndpointID = last.EndpointID
	}
	var hook demoHook
	if c.WebhookURL != "" {
		if hook, err = demoEndpoint(ctx, m, now, c.WebhookURL); err != nil {
			return key, hook, err
		}
		now.EndpointID = hook.EndpointID
	}
	state, err := json.Marshal(now)
	if err != nil {
		return key, hook, err
	}
	return key, hook, datadir.WriteFileSynced(d.Demo(), append(state, '\n'))
}

// demoKey answers a new key of the demo project, which it makes when there is
// none, and revokes the key of the start before.
func demoKey(ctx context.Context, m *adminclient.Client, last demoState) (key admincmd.IssuedKey, err error) {
	// The log may have been restored to a time before the project or the key.
	made := last.ProjectID != ""
	if made {
		key, err = admincmd.IssueKey(ctx, m, last.ProjectID, "demo", nil)
		made = !adminclient.RefusedFor(err, domain.ProjectNotFound)
	}
	if !made {
		key, err = admincmd.RegisterProject(ctx, m, demoName)
	} else if err == nil {
		err = admincmd.RevokeKey(ctx, m, last.ProjectID, last.KeyID)
		if adminclient.RefusedFor(err, domain.KeyNotFound) {
			err = nil
		}
	}
	return key, err
}

// greeting is what the demo prints for people. Its export lines set the
// variables that the commands of the README use.
func greeting(at service.Addresses, key admincmd.IssuedKey, kept bool, hook demoHook) string {
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
	for _, v := range variables {
		fmt.Fprintf(&b, "  export %s=%s\n", v[0], shellWord(v[1]))
	}
	fmt.Fprintf(&b, `
Create a payment:

  curl -s %[1]s/v1/payments \
    -H 'Authorization: Bearer %[2]s:%[3]s' \
    -H 'Content-Type: application/json' \
    -d '{"amount":"1500.00","description":"order-1042"}'

Open the url of the answer's "instructions" in a browser and press Pay, then read the
payment at /v1/payments/ID. Watch the log:  %[4]s events tail --follow --data %[5]s
`, at.BaseURL, key.ProjectID, key.APIKey, programName(os.Args[0]), shellWord(at.Data))
	b.WriteString(hook.greeting(at))
	return b.String()
}

// shellWord quotes a text so that a POSIX shell takes it as one word.
func shellWord(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+=,-") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
