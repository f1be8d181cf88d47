package admincmd

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
	"payledger/httpapi/wire"
)

// endpointBody is a request of the admin interface; absent members stay as they
// are, or get their default.
type endpointBody struct {
	URL         string   `json:"url,omitzero"`
	Kinds       []string `json:"kinds,omitempty"`
	Description *string  `json:"description,omitzero"`
}

type webhookAddCmd struct {
	ofProject
	URL                 string   `arg:"" help:"Where notifications are POSTed: https, port 443 or 8443, a public address."`
	Kinds               []string `help:"What it is notified of: payment.created, payment.awaiting_payment, payment.paid, payment.expired, payment.failed, refund.pending, refund.succeeded, refund.failed. Default: the final ones, which tell an outcome." placeholder:"KIND"`
	Description         *string  `help:"Note for people, up to 128 characters." placeholder:"TEXT"`
	WebhookAllowPrivate bool     `help:"While no server runs: take http, any port and any address. A running server knows by itself."`
}

// Help is shown by --help.
func (webhookAddCmd) Help() string {
	return `The secret is shown this once and signs what the endpoint gets, as Standard Webhooks
(https://www.standardwebhooks.com) says. The endpoint is notified of what happens from now on;
"payledger webhook test" shows whether it is reached.`
}

// Run adds the endpoint.
func (c webhookAddCmd) Run(a *console.App) error {
	return c.withProject(a, service.CoreOptions{AllowPrivate: c.WebhookAllowPrivate}, func(m *adminclient.Client, path string) error {
		return askEndpoint(a, m, http.MethodPost, endpointsPath(path), endpointBody{c.URL, c.Kinds, c.Description})
	})
}

type webhookListCmd struct{ ofProject }

// Run lists the endpoints, newest first.
func (c webhookListCmd) Run(a *console.App) error {
	return c.withProject(a, service.CoreOptions{}, func(m *adminclient.Client, path string) error {
		var list wire.Page[jsontext.Value]
		if err := m.Call(a.Ctx, http.MethodGet, endpointsPath(path)+"?limit=100", nil, &list); err != nil {
			return err
		}
		if a.JSON {
			return console.PrintLines(a, list.Data)
		}
		rows := make([][]string, len(list.Data))
		for i, raw := range list.Data {
			var e wire.Endpoint
			if err := decode(raw, &e); err != nil {
				return err
			}
			rows[i] = []string{e.ID, strconv.Itoa(e.Health.Pending), strconv.Itoa(e.Health.Undelivered), endpointState(e), e.URL}
		}
		return a.PrintTable("No endpoints.", []string{"ENDPOINT", "PENDING", "UNDELIVERED", "STATE", "URL"}, rows)
	})
}

type webhookShowCmd struct{ ofEndpoint }

// Run shows the endpoint.
func (c webhookShowCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error { return askEndpoint(a, m, http.MethodGet, path, nil) })
}

type webhookChangeCmd struct {
	ofEndpoint
	URL                 string   `help:"New URL." placeholder:"URL"`
	Kinds               []string `help:"New kinds, in place of all present ones." placeholder:"KIND"`
	Description         *string  `help:"New note for people." placeholder:"TEXT"`
	WebhookAllowPrivate bool     `help:"While no server runs: take http, any port and any address. A running server knows by itself."`
}

// Validate refuses to change nothing.
func (c webhookChangeCmd) Validate() error {
	if c.URL == "" && c.Kinds == nil && c.Description == nil {
		return errors.New("nothing to change: give --url, --kinds or --description")
	}
	return c.Directory.Validate()
}

// Run changes what was named and leaves the rest.
func (c webhookChangeCmd) Run(a *console.App) error {
	return c.withProject(a, service.CoreOptions{AllowPrivate: c.WebhookAllowPrivate}, func(m *adminclient.Client, path string) error {
		return askEndpoint(a, m, http.MethodPost, endpointPath(path, c.EndpointID), endpointBody{c.URL, c.Kinds, c.Description})
	})
}

type webhookRemoveCmd struct{ ofEndpoint }

// Run removes the endpoint.
func (c webhookRemoveCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		if err := m.Call(a.Ctx, http.MethodDelete, path, nil, nil); err != nil {
			return err
		}
		return a.Print(map[string]any{"endpoint_id": c.EndpointID, "removed": true}, "Endpoint %s is removed. What it was not sent yet is cancelled.\n", c.EndpointID)
	})
}

type (
	webhookEnableCmd  struct{ ofEndpoint }
	webhookDisableCmd struct{ ofEndpoint }
)

// Help is shown by --help.
func (webhookEnableCmd) Help() string {
	return `Notifications held while the endpoint was disabled are not sent by themselves: "payledger
webhook recover" sends the newest event of each of these payments.`
}

// Run enables the endpoint.
func (c webhookEnableCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		return askEndpoint(a, m, http.MethodPost, path+"/enable", nil)
	})
}

// Run disables the endpoint.
func (c webhookDisableCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		return askEndpoint(a, m, http.MethodPost, path+"/disable", nil)
	})
}

type webhookRotateCmd struct {
	ofEndpoint
	Overlap time.Duration `help:"How long the old secret signs beside the new one, up to 168h; 0s ends it at once." default:"24h" placeholder:"DURATION"`
}

// Help is shown by --help.
func (webhookRotateCmd) Help() string {
	return `Until the overlap ends each notification carries two signatures, so a receiver may know
either secret. Give the new one to the receiver before then. Rotated again, each secret stays
good until its own overlap ends, eight of them at most; of more, the one that ends first goes.`
}

// Validate refuses an overlap that is no number of seconds.
func (c webhookRotateCmd) Validate() error {
	if c.Overlap < 0 || c.Overlap%time.Second != 0 {
		return fmt.Errorf("--overlap %s: want whole seconds, 0s or more", c.Overlap)
	}
	return c.Directory.Validate()
}

// Run rotates the secret.
func (c webhookRotateCmd) Run(a *console.App) error {
	return c.withEndpoint(a, func(m *adminclient.Client, path string) error {
		body := map[string]int{"overlap_seconds": int(c.Overlap.Seconds())}
		return askEndpoint(a, m, http.MethodPost, path+"/rotate-secret", body)
	})
}
