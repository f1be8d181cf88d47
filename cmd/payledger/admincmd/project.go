package admincmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/domain"
	"payledger/httpapi/wire"
)

// Project groups the commands on merchant projects.
type Project struct {
	Create  projectCreateCmd  `cmd:"" help:"Register a project and issue its first API key."`
	List    projectListCmd    `cmd:"" help:"List the projects."`
	Change  projectChangeCmd  `cmd:"" help:"Change a project's name or settings."`
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
}

// project is a project as it is printed: without its keys, which key list has.
type project struct {
	ProjectID string `json:"project_id"`
	Name      string `json:"name"`
	Disabled  bool   `json:"disabled"`

	Settings domain.Settings `json:"settings"`
}

// IssuedKey is a key at the one moment its secret is shown.
type IssuedKey struct {
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
		key, err := registerProject(a.Ctx, m, projectBody{c.Name, c.projectSettings})
		if err != nil {
			return err
		}
		return a.Print(key, "Project  %s\nAPI key  %s  (shown this once)\n", key.ProjectID, key.APIKey)
	})
}

// RegisterProject registers a project with the default settings and issues its
// first key.
func RegisterProject(ctx context.Context, m *adminclient.Client, name string) (IssuedKey, error) {
	return registerProject(ctx, m, projectBody{Name: name})
}

func registerProject(ctx context.Context, m *adminclient.Client, body projectBody) (key IssuedKey, err error) {
	err = m.Call(ctx, http.MethodPost, "/admin/projects", body, &key)
	return key, err
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
			return a.PrintJSON(list.Data)
		}
		rows := make([][]string, len(list.Data))
		for i, p := range list.Data {
			state := "active"
			if p.Disabled {
				state = "disabled"
			}
			rows[i] = []string{
				p.ProjectID, state, joined(p.Settings.Currencies, ","), p.Settings.MaxAmount.String(),
				fmt.Sprintf("%ds", p.Settings.LifetimeSeconds), p.Name,
			}
		}
		return a.PrintTable("No projects: register one with \"payledger project create NAME\".", []string{"PROJECT", "STATE", "CURRENCIES", "MAX AMOUNT", "LIFETIME", "NAME"}, rows)
	})
}

type projectChangeCmd struct {
	console.Directory
	ProjectID       string `arg:"" help:"Project to change."`
	Name            string `help:"New name."`
	projectSettings `embed:""`
}

// Validate refuses to change nothing, which would be an event of the log.
func (c projectChangeCmd) Validate() error {
	s := c.projectSettings
	if c.Name == "" && s.Currencies == nil && s.MaxAmount == "" && s.LifetimeSeconds == 0 && s.RequireIdempotencyKey == nil && s.ShopURL == nil && s.TimeZone == nil {
		return errors.New("nothing to change: give --name or a setting")
	}
	return c.Directory.Validate()
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
