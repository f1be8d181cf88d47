package admincmd

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/cmd/payledger/service"
	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// Webhook groups the commands on webhook endpoints and deliveries.
type Webhook struct {
	Add          webhookAddCmd        `cmd:"" help:"Add an endpoint; shows its signing secret."`
	List         webhookListCmd       `cmd:"" help:"List a project's endpoints and how deliveries to them go."`
	Show         webhookShowCmd       `cmd:"" help:"Show one endpoint."`
	Change       webhookChangeCmd     `cmd:"" help:"Change an endpoint's URL, kinds or description."`
	Remove       webhookRemoveCmd     `cmd:"" help:"Remove an endpoint for good."`
	Enable       webhookEnableCmd     `cmd:"" help:"Let a disabled endpoint be notified again."`
	Disable      webhookDisableCmd    `cmd:"" help:"Stop notifications to an endpoint until it is enabled."`
	RotateSecret webhookRotateCmd     `cmd:"" help:"Give an endpoint a new signing secret; shows it."`
	Test         webhookTestCmd       `cmd:"" help:"Send an endpoint.test notification and print its result."`
	Deliveries   webhookDeliveriesCmd `cmd:"" help:"List deliveries, newest first."`
	Delivery     webhookDeliveryCmd   `cmd:"" help:"Show one delivery with its attempts."`
	Resend       webhookResendCmd     `cmd:"" help:"Send a notification again."`
	Recover      webhookRecoverCmd    `cmd:"" help:"Send the newest status of each payment that an endpoint missed since a time."`
}

// Help is shown by --help.
func (Webhook) Help() string {
	return `Merchants do the same with their API key under /v1/webhook-endpoints. The commands work
whether the server runs or not; without one, notifications are sent when it runs again.

An endpoint is notified of each payment's events in their order, and never of an earlier
status after a later one. A failed delivery is retried for some 76 hours, then listed as
given_up; "resend" and "recover" send it again.`
}

// ofProject are the flags of commands on what belongs to a project.
type ofProject struct{ OfProject }

// projectPath answers the path of the project.
func (c ofProject) projectPath(ctx context.Context, m *adminclient.Client) (string, error) {
	id, err := c.projectID(ctx, m)
	return projectPath(id), err
}

func projectPath(id string) string { return "/admin/projects/" + url.PathEscape(id) }

// withProject runs fn with the admin interface and the path of the project.
func (c ofProject) withProject(a *console.App, o service.CoreOptions, fn func(m *adminclient.Client, path string) error) error {
	return c.Holding(a, o, func(m *adminclient.Client) error {
		path, err := c.projectPath(a.Ctx, m)
		if err != nil {
			return err
		}
		return fn(m, path)
	})
}

// ofEndpoint are the flags and the argument of commands on one endpoint.
type ofEndpoint struct {
	ofProject
	EndpointID string `arg:"" help:"Endpoint, as \"webhook list\" shows it."`
}

// withEndpoint runs fn with the admin interface and the path of the endpoint.
func (c ofEndpoint) withEndpoint(a *console.App, fn func(m *adminclient.Client, path string) error) error {
	return c.withProject(a, service.CoreOptions{}, func(m *adminclient.Client, path string) error {
		return fn(m, endpointPath(path, c.EndpointID))
	})
}

func endpointsPath(project string) string { return project + "/webhook-endpoints" }

func endpointPath(project, id string) string {
	return endpointsPath(project) + "/" + url.PathEscape(id)
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

// private says how to use an address that is refused, where that is meant.
func private(err error) error {
	p, ok := errors.AsType[*adminclient.Problem](err)
	if !ok || !slices.ContainsFunc(p.Errors, func(f wire.FieldProblem) bool { return f.Code == domain.TargetNotAllowed }) {
		return err
	}
	return privateError{err}
}

// privateError is a refusal with what to do. Its text is made when it is printed, when
// the refusal knows the arguments of the command.
type privateError struct{ error }

func (e privateError) Unwrap() error { return e.error }

func (e privateError) Error() string {
	return e.error.Error() + "\nFor development: \"payledger serve --webhook-allow-private\" takes any address, " +
		"and so does this command with that flag while no server runs"
}

// askEndpoint asks for something whose answer is an endpoint, and prints it.
func askEndpoint(a *console.App, m *adminclient.Client, method, path string, body any) error {
	var raw jsontext.Value
	if err := m.Call(a.Ctx, method, path, body, &raw); err != nil {
		return private(err)
	}
	if a.JSON {
		return a.PrintJSON(raw)
	}
	var e wire.Endpoint
	if err := decode(raw, &e); err != nil {
		return err
	}
	lines := [][2]string{{"Endpoint", e.ID}, {"URL", e.URL}, {"Kinds", joined(e.Kinds, " ")}}
	add := func(name, format, value string) {
		if value != "" {
			lines = append(lines, [2]string{name, fmt.Sprintf(format, value)})
		}
	}
	if e.Description != nil {
		add("Description", "%s", *e.Description)
	}
	at := func(name, format string, t *domain.Instant) {
		if t != nil {
			add(name, format, t.String())
		}
	}
	add("State", "%s", endpointState(e))
	at("Disabled", "%s", e.DisabledAt)
	at("Created", "%s", &e.CreatedAt)
	add("Secret", "%s  (shown this once)", e.Secret)
	at("Old secret", "signs too until %s", e.Previous)
	if n := e.Health.Pending; n > 0 {
		add("Pending", "%s", fmt.Sprint(n))
	}
	if n := e.Health.Undelivered; n > 0 {
		add("Undelivered", "%s", fmt.Sprint(n))
	}
	at("Failing", "since %s", e.Health.FailingSince)
	at("Paused", "until %s", e.Health.OpenUntil)
	if f := e.Health.LastFailure; f != nil {
		add("Last", "%s", fmt.Sprintf("%s at %s", attemptResult(*f), f.At))
	}
	for _, l := range lines {
		if _, err := fmt.Fprintf(a.Stdout, "%-11s  %s\n", l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}
