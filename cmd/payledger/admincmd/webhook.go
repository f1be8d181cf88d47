package admincmd

import (
	"errors"
	"fmt"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/service"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// Webhook groups the commands on webhook endpoints and deliveries.
type Webhook struct {
	Add          webhookAdd        `cmd:"" help:"Add an endpoint; shows its signing secret."`
	List         webhookList       `cmd:"" help:"List a project's endpoints and how deliveries to them go."`
	Show         webhookShow       `cmd:"" help:"Show one endpoint."`
	Change       webhookChange     `cmd:"" help:"Change an endpoint's URL, kinds or description."`
	Remove       webhookRemove     `cmd:"" help:"Remove an endpoint for good."`
	Enable       webhookEnable     `cmd:"" help:"Let a disabled endpoint be notified again."`
	Disable      webhookDisable    `cmd:"" help:"Stop notifications to an endpoint until it is enabled."`
	RotateSecret webhookRotate     `cmd:"" help:"Give an endpoint a new signing secret; shows it."`
	Test         webhookTest       `cmd:"" help:"Send an endpoint.test notification and print its result."`
	Deliveries   webhookDeliveries `cmd:"" help:"List deliveries, newest first."`
	Delivery     webhookDelivery   `cmd:"" help:"Show one delivery with its attempts."`
	Resend       webhookResend     `cmd:"" help:"Send a notification again."`
	Recover      webhookRecover    `cmd:"" help:"Send the newest status of each payment that an endpoint missed since a time."`
}

// Help is shown by --help.
func (Webhook) Help() string {
	return `Merchants do the same with their API key under /v1/webhook-endpoints. The commands work
whether the server runs or not; without one, notifications are sent when it runs again.

An endpoint is notified of each payment's events in their order, and never of an earlier
status after a later one. A failed delivery is retried for some 76 hours, then listed as
given_up; "resend" and "recover" send it again.`
}

// The paths of a project's endpoints and of one of them.
const (
	endpoints   = "/admin/projects/{project}/webhook-endpoints"
	oneEndpoint = endpoints + "/{endpoint_id}"
)

// OfEndpoint is for commands on one endpoint.
type OfEndpoint struct {
	OfProject
	EndpointID string `arg:"" help:"Endpoint, as \"webhook list\" shows it." json:"endpoint_id"`
}

type webhookAdd struct {
	OfProject
	URL                 string   `arg:"" help:"Where notifications are POSTed: https, port 443 or 8443, a public address." json:"url"`
	Kinds               []string `help:"What it is notified of: payment.created, payment.awaiting_payment, payment.paid, payment.expired, payment.failed, refund.pending, refund.succeeded, refund.failed, refund.returned, payment.disputed, payment.dispute_won, payment.dispute_lost. Default: the final ones, which tell an outcome." placeholder:"KIND" json:"kinds,omitempty"`
	Description         *string  `help:"Note for people, up to 128 characters." placeholder:"TEXT" json:"description,omitzero"`
	WebhookAllowPrivate bool     `help:"While no server runs: take http, any port and any address. A running server knows by itself." json:"-"`
}

// Help is shown by --help.
func (webhookAdd) Help() string {
	return `The secret is shown this once and signs what the endpoint gets, as Standard Webhooks
(https://www.standardwebhooks.com) says. The endpoint is notified of what happens from now on;
"payledger webhook test" shows whether it is reached.`
}

func (c webhookAdd) open(a *cli.App, fn func(*cli.Client) error) error {
	return c.Holding(a, service.Options{Flags: service.Flags{WebhookAllowPrivate: c.WebhookAllowPrivate}}, fn)
}

// Run adds the endpoint.
func (c webhookAdd) Run(a *cli.App) error { return showEndpoint(a, c, "POST "+endpoints) }

type webhookList struct {
	OfProject
	Whole
}

// Run lists the endpoints, newest first.
func (c webhookList) Run(a *cli.App) error {
	return table(a, c, "GET "+endpoints, "No endpoints.", "ENDPOINT, PENDING, UNDELIVERED, STATE, URL", func(e wire.Endpoint) []any {
		return []any{e.ID, e.Health.Pending, e.Health.Undelivered, endpointState(e), e.URL}
	})
}

type webhookShow struct{ OfEndpoint }

// Run shows the endpoint.
func (c webhookShow) Run(a *cli.App) error { return showEndpoint(a, c, "GET "+oneEndpoint) }

type webhookChange struct {
	OfEndpoint
	URL                 string   `help:"New URL." placeholder:"URL" json:"url,omitzero"`
	Kinds               []string `help:"New kinds, in place of all present ones." placeholder:"KIND" json:"kinds,omitempty"`
	Description         *string  `help:"New note for people." placeholder:"TEXT" json:"description,omitzero"`
	WebhookAllowPrivate bool     `help:"While no server runs: take http, any port and any address. A running server knows by itself." json:"-"`
}

// Validate refuses to change nothing.
func (c webhookChange) Validate() error {
	if c.URL == "" && c.Kinds == nil && c.Description == nil {
		return errors.New("nothing to change: give --url, --kinds or --description")
	}
	return nil
}

func (c webhookChange) open(a *cli.App, fn func(*cli.Client) error) error {
	return c.Holding(a, service.Options{Flags: service.Flags{WebhookAllowPrivate: c.WebhookAllowPrivate}}, fn)
}

// Run changes what was named and leaves the rest.
func (c webhookChange) Run(a *cli.App) error { return showEndpoint(a, c, "POST "+oneEndpoint) }

type webhookRemove struct{ OfEndpoint }

// Run removes the endpoint.
func (c webhookRemove) Run(a *cli.App) error {
	return do(a, c, "DELETE "+oneEndpoint, map[string]any{"endpoint_id": c.EndpointID, "removed": true},
		"Endpoint %s is removed. Its pending deliveries are cancelled.\n", c.EndpointID)
}

type (
	webhookEnable  struct{ OfEndpoint }
	webhookDisable struct{ OfEndpoint }
)

// Help is shown by --help.
func (webhookEnable) Help() string {
	return `Notifications held while the endpoint was disabled are not sent by themselves: "payledger
webhook recover" sends the newest event of each of these payments.`
}

// Run enables the endpoint.
func (c webhookEnable) Run(a *cli.App) error {
	return showEndpoint(a, c, "POST "+oneEndpoint+"/enable")
}

// Run disables the endpoint.
func (c webhookDisable) Run(a *cli.App) error {
	return showEndpoint(a, c, "POST "+oneEndpoint+"/disable")
}

type webhookRotate struct {
	OfEndpoint
	Overlap time.Duration `help:"How long the old secret signs as well as the new one, up to 168h; 0s ends it at once. Default: 24h." default:"24h" placeholder:"DURATION" json:"-"`
	Seconds int           `kong:"-" json:"overlap_seconds"`
}

// Help is shown by --help.
func (webhookRotate) Help() string {
	return `Until the overlap ends each notification carries two signatures, so a receiver may know
either secret. Give the new one to the receiver before then. Rotated again, each secret stays
good until its own overlap ends, eight of them at most; of more, the one that ends first goes.`
}

// Validate refuses an overlap that is no number of seconds.
func (c webhookRotate) Validate() error {
	if c.Overlap < 0 || c.Overlap%time.Second != 0 {
		return fmt.Errorf("--overlap %s: want whole seconds, 0s or more", c.Overlap)
	}
	return nil
}

// Run rotates the secret.
func (c webhookRotate) Run(a *cli.App) error {
	c.Seconds = int(c.Overlap.Seconds())
	return showEndpoint(a, c, "POST "+oneEndpoint+"/rotate-secret")
}

// endpointState says whether an endpoint is notified, and if not, why.
func endpointState(e wire.Endpoint) string {
	switch {
	case e.Reason == nil:
		return e.Status
	case *e.Reason == projects.DisabledGone:
		return "disabled: it answered 410"
	case *e.Reason == projects.DisabledFailing:
		return "disabled: it took nothing for days"
	}
	return "disabled"
}

// showEndpoint makes a request whose answer is an endpoint, and prints it.
func showEndpoint(a *cli.App, c command, line string) error {
	return show(a, c, line, func(e wire.Endpoint) error {
		rows := [][2]string{
			{"Endpoint", e.ID},
			{"URL", e.URL},
			{"Kinds", joined(e.Kinds, " ")},
			{"Description", orNothing(e.Description)},
			{"State", endpointState(e)},
			{"Disabled", some("%s", e.DisabledAt)},
			{"Created", e.CreatedAt.String()},
			{"Secret", some("%s  (shown this once)", e.Secret)},
			{"Old secret", some("signs too until %s", e.Previous)},
			{"Pending", some("%d", e.Health.Pending)},
			{"Undelivered", some("%d", e.Health.Undelivered)},
			{"Failing", some("since %s", e.Health.FailingSince)},
			{"Paused", some("until %s", e.Health.OpenUntil)},
		}
		if f := e.Health.LastFailure; f != nil {
			rows = append(rows, [2]string{"Last", fmt.Sprintf("%s at %s", attemptResult(*f), f.At)})
		}
		return a.PrintRows(rows)
	})
}
