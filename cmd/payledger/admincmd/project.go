package admincmd

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Project groups the commands on merchant projects.
type Project struct {
	Create  projectCreate  `cmd:"" help:"Register a project and issue its first API key."`
	List    projectList    `cmd:"" help:"List the projects."`
	Get     projectGet     `cmd:"" help:"Show a project, with the limits in force."`
	Change  projectChange  `cmd:"" help:"Change a project's name or settings, at once."`
	SignOut projectSignOut `cmd:"" help:"End all sessions of a project's account, at once."`
	Disable projectDisable `cmd:"" help:"Close a project's API. Its payments live on."`
}

// projectSettings are the settings a command names; the others stay. The environment and the file of
// --config name no rates: theirs are those of "serve".
type projectSettings struct {
	Currencies            []string `help:"Allowed currencies, ISO 4217 codes with two minor digits." placeholder:"CODE" json:"currencies,omitempty"`
	MaxAmount             string   `help:"Largest amount of a payment." placeholder:"AMOUNT" json:"max_amount,omitempty"`
	LifetimeSeconds       int      `help:"How long a new payment can be paid, 300 to 7776000." placeholder:"SECONDS" json:"lifetime_seconds,omitzero"`
	RequireIdempotencyKey *bool    `help:"Refuse POSTs without an Idempotency-Key." negatable:"" json:"require_idempotency_key,omitempty"`
	ShopURL               *string  `help:"Link of the payment page back to the shop once the outcome is known: an https address of at most 512 bytes; empty: none." placeholder:"URL" json:"shop_url,omitzero" name:"shop-url"`
	TimeZone              *string  `help:"Time zone of the days in the account and its exports: an IANA name such as Europe/Moscow; empty: UTC." placeholder:"ZONE" json:"time_zone,omitzero"`
	DetailsRetentionDays  *int     `help:"Erase what payments were for, description and payload, by itself after so many days, 3650 at most and no fewer than a payment can be paid; 0: never." placeholder:"DAYS" json:"details_retention_days,omitzero"`

	RateWrites         limit `help:"Writes a second, with bursts of twice as many; 0: no limit; default: as the server has it." placeholder:"N" json:"rate_writes,omitzero" env:"-"`
	RateReads          limit `help:"Reads a second, and as many pages of the account; as --rate-writes." placeholder:"N" json:"rate_reads,omitzero" env:"-"`
	RateCustomers      limit `help:"Requests to its payment pages a minute and address, a tenth of them forms; as --rate-writes." placeholder:"N" json:"rate_customers,omitzero" env:"-"`
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

// issuedKey is a key at the one moment its secret is shown.
type issuedKey struct {
	ProjectID string `json:"project_id"`
	KeyID     string `json:"key_id"`
	APIKey    string `json:"api_key"`
}

type projectCreate struct {
	Anyway
	Name     string          `arg:"" help:"Name shown to customers as the merchant, up to 128 characters." json:"name"`
	Settings projectSettings `embed:"" json:"settings,omitzero"`
}

// Help is shown by --help.
func (projectCreate) Help() string {
	return `Works whether the server runs or not. The API key is shown this once: only its hash
is kept. Clients send it as "Authorization: Bearer PROJECT_ID:API_KEY".`
}

// Run registers the project and issues a key with every scope.
func (c projectCreate) Run(a *cli.App) error {
	var key issuedKey
	return ask(a, c, "POST /admin/projects", &key, func() error {
		return a.Print(key, "Project  %s\nAPI key  %s  (shown this once)\n", key.ProjectID, key.APIKey)
	})
}

type projectList struct{ Reads }

// Run lists the projects.
func (c projectList) Run(a *cli.App) error {
	return table(a, c, "GET /admin/projects", "No projects: register one with \"payledger project create NAME\".",
		"PROJECT, STATE, CURRENCIES, MAX AMOUNT, LIFETIME, DETAILS KEPT, OWN LIMITS, NAME", func(p wire.Project) []any {
			s := p.Settings
			return []any{p.ProjectID, stateOf(p), joined(s.Currencies, ","), s.MaxAmount, fmt.Sprintf("%ds", s.LifetimeSeconds), kept(s), ownLimits(s), p.Name}
		})
}

// kept is how long what payments were for is kept.
func kept(s domain.Settings) string {
	if s.DetailsRetentionDays == 0 {
		return "-"
	}
	return fmt.Sprintf("%dd", s.DetailsRetentionDays)
}

func stateOf(p wire.Project) string {
	if p.Disabled {
		return "disabled"
	}
	return "active"
}

// ownLimits are the limits that are not the server's.
func ownLimits(s domain.Settings) string {
	var own []string
	for _, name := range domain.LimitNames() {
		if n := *s.OwnLimit(name); n != nil {
			own = append(own, fmt.Sprintf("%s=%d", name, *n))
		}
	}
	return cmp.Or(strings.Join(own, ","), "-")
}

type projectGet struct {
	Reads
	ProjectID string `arg:"" help:"Project to show." json:"project_id"`
}

// Help is shown by --help.
func (projectGet) Help() string {
	return `Each limit says whether it is the project's own, or the server's (from its flags).
While no server runs, only the project's own are known.`
}

// Run shows the project.
func (c projectGet) Run(a *cli.App) error {
	return show(a, c, "GET /admin/projects/{project_id}", func(p wire.Project) error {
		s := p.Settings
		rows := [][2]string{
			{"Project", p.ProjectID},
			{"Name", p.Name},
			{"State", stateOf(p)},
			{"Currencies", joined(s.Currencies, ",")},
			{"Max amount", s.MaxAmount.String()},
			{"Lifetime", fmt.Sprintf("%ds", s.LifetimeSeconds)},
			{"Details kept", kept(s)},
			{"Key required", strconv.FormatBool(s.RequireIdempotencyKey)},
			{"Shop", cmp.Or(s.ShopURL, "-")},
			{"Time zone", cmp.Or(s.TimeZone, "UTC")},
		}
		if p.Limits == nil {
			rows = append(rows, [2]string{"Own limits", ownLimits(s)})
		}
		for _, l := range p.Limits { // those in force, with where they come from
			rows = append(rows, [2]string{l.Name, fmt.Sprintf("%d (%s)", l.Value, l.From)})
		}
		return a.PrintRows(rows)
	})
}

type projectChange struct {
	Anyway
	ProjectID string          `arg:"" help:"Project to change." json:"project_id"`
	Name      string          `help:"New name." json:"name,omitzero"`
	Settings  projectSettings `embed:"" json:"settings,omitzero"`
}

// Validate refuses to change nothing, which would be an event of the log.
func (c projectChange) Validate() error {
	if c.Name == "" && reflect.ValueOf(c.Settings).IsZero() {
		return errors.New("nothing to change: give --name or a setting")
	}
	return nil
}

// Help is shown by --help.
func (projectChange) Help() string {
	return `What is not named stays. A running server acts on it at once, for this project alone: also for
sessions that have begun. Failed authentications have no project: --rate-auth-failures of
"payledger serve" holds for all.`
}

// Run changes what was named and leaves the rest.
func (c projectChange) Run(a *cli.App) error {
	return showProject(a, c, "POST /admin/projects/{project_id}", "changed")
}

type projectSignOut struct {
	Anyway
	ProjectID string `arg:"" help:"Project whose account is signed out of." json:"project_id"`
}

// Help is shown by --help.
func (projectSignOut) Help() string {
	return `Keys stay live: anyone with one can sign in again. To end the sessions of one key for good,
revoke the key.`
}

// Run ends the sessions.
func (c projectSignOut) Run(a *cli.App) error {
	return showProject(a, c, "POST /admin/projects/{project_id}/sign-out", "signed out")
}

type projectDisable struct {
	Anyway
	ProjectID string `arg:"" help:"Project to disable." json:"project_id"`
}

// Run disables the project.
func (c projectDisable) Run(a *cli.App) error {
	return showProject(a, c, "POST /admin/projects/{project_id}/disable", "disabled")
}

func showProject(a *cli.App, c command, line, what string) error {
	return show(a, c, line, func(p wire.Project) error {
		return a.Print(p, "Project %s (%s) is %s.\n", p.ProjectID, p.Name, what)
	})
}
