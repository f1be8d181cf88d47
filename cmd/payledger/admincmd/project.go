package admincmd

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Project groups the commands on merchant projects.
type Project struct {
	Create  projectCreateCmd  `cmd:"" help:"Register a project and issue its first API key."`
	List    projectListCmd    `cmd:"" help:"List the projects."`
	Get     projectGetCmd     `cmd:"" help:"Show a project, with the limits in force."`
	Change  projectChangeCmd  `cmd:"" help:"Change a project's name or settings, at once."`
	SignOut projectSignOutCmd `cmd:"" help:"End all sessions of a project's account, at once."`
	Disable projectDisableCmd `cmd:"" help:"Close a project's API. Its payments live on."`
}

// projectSettings are the settings a command names; the others stay.
type projectSettings struct {
	Currencies            []string `help:"Allowed currencies, ISO 4217 codes with two minor digits." placeholder:"CODE" json:"currencies,omitempty"`
	MaxAmount             string   `help:"Largest amount of a payment." placeholder:"AMOUNT" json:"max_amount,omitempty"`
	LifetimeSeconds       int      `help:"How long a new payment can be paid, 300 to 7776000." placeholder:"SECONDS" json:"lifetime_seconds,omitzero"`
	RequireIdempotencyKey *bool    `help:"Refuse POSTs without an Idempotency-Key." negatable:"" json:"require_idempotency_key,omitempty"`
	ShopURL               *string  `help:"Where the payment page leads back to once the outcome is known: an https address of at most 512 bytes; empty: nowhere." placeholder:"URL" json:"shop_url,omitzero" name:"shop-url"`
	TimeZone              *string  `help:"Time zone of the days in the account and its exports: an IANA name such as Europe/Moscow; empty: UTC." placeholder:"ZONE" json:"time_zone,omitzero"`

	RateWrites         limit `help:"Writes a second, with bursts of twice as many; 0: no limit; default: as the server has it." placeholder:"N" json:"rate_writes,omitzero"`
	RateReads          limit `help:"Reads a second, and as many pages of the account; as --rate-writes." placeholder:"N" json:"rate_reads,omitzero"`
	RateCustomers      limit `help:"Requests to its payment pages a minute and address, a tenth of them forms; as --rate-writes." placeholder:"N" json:"rate_customers,omitzero"`
	SessionIdleSeconds limit `help:"How long a session of the account lives without use, 300 to 2592000; default: as the server has it." placeholder:"SECONDS" json:"session_idle_seconds,omitzero"`
	SessionMaxSeconds  limit `help:"How long a session of the account lives at all; as --session-idle-seconds." placeholder:"SECONDS" json:"session_max_seconds,omitzero"`
}

// limit is a number, or "default" for what the server has; "" is left out.
type limit string

// UnmarshalText reads the flag.
func (l *limit) UnmarshalText(text []byte) error {
	*l = limit(text)
	if _, err := strconv.Atoi(string(text)); err != nil && *l != "default" {
		return errors.New(`want a whole number, or "default"`)
	}
	return nil
}

// MarshalJSON writes the member of a request.
func (l limit) MarshalJSON() ([]byte, error) {
	if l == "default" {
		return []byte("null"), nil
	}
	return []byte(l), nil
}

// project is a project as it is printed: without its keys, which key list has.
type project struct {
	ProjectID string `json:"project_id"`
	Name      string `json:"name"`
	Disabled  bool   `json:"disabled"`

	Settings domain.Settings `json:"settings"`
	Limits   []wire.Limit    `json:"limits,omitempty"`
}

// issuedKey is a key at the one moment its secret is shown.
type issuedKey struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`
	APIKey    string `json:"api_key"`
}

type projectCreateCmd struct {
	console.Directory
	Name            string `arg:"" help:"Name shown to customers as the merchant, up to 128 characters."`
	projectSettings `embed:""`
}

// projectBody is a request of the admin interface; absent members stay as they
// are.
type projectBody struct {
	Name     string          `json:"name,omitempty"`
	Settings projectSettings `json:"settings"`
}

// Help is shown by --help.
func (projectCreateCmd) Help() string {
	return `Works whether the server runs or not. The API key is shown this once: only its hash
is kept. Clients send it as "Authorization: Bearer PROJECT_ID:API_KEY".`
}

// Run registers the project and issues a key with every scope.
func (c projectCreateCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var key issuedKey
		if err := m.Call(a.Ctx, http.MethodPost, "/admin/projects", projectBody{c.Name, c.projectSettings}, &key); err != nil {
			return err
		}
		return a.Print(key, "Project  %s\nAPI key  %s  (shown this once)\n", key.ProjectID, key.APIKey)
	})
}

type projectListCmd struct{ console.Directory }

// Run lists the projects.
func (c projectListCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		var list wire.Page[project]
		if err := m.Call(a.Ctx, http.MethodGet, "/admin/projects", nil, &list); err != nil {
			return err
		}
		if a.JSON {
			return console.PrintLines(a, list.Data)
		}
		rows := make([][]string, len(list.Data))
		for i, p := range list.Data {
			rows[i] = []string{
				p.ProjectID, p.state(), joined(p.Settings.Currencies, ","), p.Settings.MaxAmount.String(),
				fmt.Sprintf("%ds", p.Settings.LifetimeSeconds), p.ownLimits(), p.Name,
			}
		}
		return a.PrintTable("No projects: register one with \"payledger project create NAME\".", []string{"PROJECT", "STATE", "CURRENCIES", "MAX AMOUNT", "LIFETIME", "OWN LIMITS", "NAME"}, rows)
	})
}

func (p project) state() string {
	if p.Disabled {
		return "disabled"
	}
	return "active"
}

// ownLimits are the limits that are not the server's.
func (p project) ownLimits() string {
	var own []string
	for _, name := range domain.LimitNames() {
		if n := *p.Settings.OwnLimit(name); n != nil {
			own = append(own, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	return cmp.Or(strings.Join(own, ","), "-")
}

type projectGetCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project to show."`
}

// Help is shown by --help.
func (projectGetCmd) Help() string {
	return `Beside each limit stands whether it is the project's own, or the server's (from its flags).
While no server runs, only the project's own are known.`
}

// Run shows the project.
func (c projectGetCmd) Run(a *console.App) error {
	return c.Reading(a, func(m *adminclient.Client) error {
		var p project
		if err := m.Call(a.Ctx, http.MethodGet, "/admin/projects/"+url.PathEscape(c.ProjectID), nil, &p); err != nil {
			return err
		}
		if a.JSON {
			return a.PrintJSON(p)
		}
		rows := [][2]string{
			{"Project", p.ProjectID},
			{"Name", p.Name},
			{"State", p.state()},
			{"Currencies", joined(p.Settings.Currencies, ",")},
			{"Max amount", p.Settings.MaxAmount.String()},
			{"Lifetime", fmt.Sprintf("%ds", p.Settings.LifetimeSeconds)},
			{"Key required", strconv.FormatBool(p.Settings.RequireIdempotencyKey)},
			{"Shop", cmp.Or(p.Settings.ShopURL, "-")},
			{"Time zone", cmp.Or(p.Settings.TimeZone, "UTC")},
		}
		if p.Limits == nil {
			rows = append(rows, [2]string{"Own limits", p.ownLimits()})
		}
		return a.PrintRows(append(rows, limitRows(p.Limits)...))
	})
}

// limitRows are the limits in force, with where they come from.
func limitRows(all []wire.Limit) (rows [][2]string) {
	for _, l := range all {
		rows = append(rows, [2]string{l.Name, fmt.Sprintf("%d (%s)", l.Value, l.From)})
	}
	return rows
}

type projectChangeCmd struct {
	console.Directory
	ProjectID       string `arg:"" help:"Project to change."`
	Name            string `help:"New name."`
	projectSettings `embed:""`
}

// Validate refuses to change nothing, which would be an event of the log.
func (c projectChangeCmd) Validate() error {
	if c.Name == "" && reflect.ValueOf(c.projectSettings).IsZero() {
		return errors.New("nothing to change: give --name or a setting")
	}
	return c.Directory.Validate()
}

// Help is shown by --help.
func (projectChangeCmd) Help() string {
	return `What is not named stays. A running server acts on it at once, for this project alone: also for
sessions that have begun. Failed authentications have no project: --rate-auth-failures of
"payledger serve" holds for all.`
}

// Run changes what was named and leaves the rest.
func (c projectChangeCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var p project
		path := "/admin/projects/" + url.PathEscape(c.ProjectID)
		if err := m.Call(a.Ctx, http.MethodPost, path, projectBody{c.Name, c.projectSettings}, &p); err != nil {
			return err
		}
		return printProject(a, p, "changed")
	})
}

type projectSignOutCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project whose account is signed out of."`
}

// Help is shown by --help.
func (projectSignOutCmd) Help() string {
	return `Keys stay live: whoever has one can sign in again. To end the sessions of one key for good,
revoke the key.`
}

// Run ends the sessions.
func (c projectSignOutCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var p project
		path := "/admin/projects/" + url.PathEscape(c.ProjectID) + "/sign-out"
		if err := m.Call(a.Ctx, http.MethodPost, path, struct{}{}, &p); err != nil {
			return err
		}
		return printProject(a, p, "signed out")
	})
}

type projectDisableCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project to disable."`
}

// Run disables the project.
func (c projectDisableCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var p project
		path := "/admin/projects/" + url.PathEscape(c.ProjectID) + "/disable"
		if err := m.Call(a.Ctx, http.MethodPost, path, struct{}{}, &p); err != nil {
			return err
		}
		return printProject(a, p, "disabled")
	})
}

func printProject(a *console.App, p project, what string) error {
	return a.Print(p, "Project %s (%s) is %s.\n", p.ProjectID, p.Name, what)
}
