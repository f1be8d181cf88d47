package admincmd

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"payledger/cmd/payledger/adminclient"
	"payledger/cmd/payledger/console"
	"payledger/httpapi/wire"
)

// Key groups the commands on API keys.
type Key struct {
	Create keyCreateCmd `cmd:"" help:"Issue a new API key."`
	List   keyListCmd   `cmd:"" help:"List a project's API keys."`
	Rename keyRenameCmd `cmd:"" help:"Give an API key another name."`
	Revoke keyRevokeCmd `cmd:"" help:"Take an API key out of use, at once and for good."`
}

type keyCreateCmd struct {
	console.Directory
	ProjectID string   `arg:"" help:"Project the key belongs to."`
	Name      string   `help:"What you will know the key by in lists, up to 64 characters."`
	Scopes    []string `help:"What the key may do: payments:write, refunds:write, webhooks:write, read, audit. Default: all." placeholder:"SCOPE"`
}

// Validate refuses an empty list of scopes: it would not mean none, but all.
func (c keyCreateCmd) Validate() error {
	if c.Scopes != nil && len(c.Scopes) == 0 {
		return errors.New("--scopes: want at least one; leave the flag out for all")
	}
	return c.Directory.Validate()
}

// Help is shown by --help.
func (keyCreateCmd) Help() string {
	return `A project can have several live keys. To rotate one: create a new key, move the
clients over, revoke the old one.`
}

// Run issues the key.
func (c keyCreateCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		body := struct {
			Name   string   `json:"name,omitempty"`
			Scopes []string `json:"scopes,omitempty"`
		}{c.Name, c.Scopes}
		key := issuedKey{ProjectID: c.ProjectID}
		if err := m.Call(a.Ctx, http.MethodPost, keysPath(c.ProjectID), body, &key); err != nil {
			return err
		}
		return a.Print(key, "Key      %s\nAPI key  %s  (shown this once)\n", key.KeyID, key.APIKey)
	})
}

func keysPath(projectID string) string {
	return "/admin/projects/" + url.PathEscape(projectID) + "/keys"
}

type keyListCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project whose keys to list."`
}

// Run lists the keys.
func (c keyListCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var list wire.Page[wire.Key]
		if err := m.Call(a.Ctx, http.MethodGet, keysPath(c.ProjectID), nil, &list); err != nil {
			return err
		}
		if a.JSON {
			return console.PrintLines(a, list.Data)
		}
		rows := make([][]string, len(list.Data))
		for i, k := range list.Data {
			state := "live"
			if k.Revoked {
				state = "revoked"
			}
			rows[i] = []string{k.KeyID, k.Name, state, joined(k.Scopes, " ")}
		}
		return a.PrintTable("No keys.", []string{"KEY", "NAME", "STATE", "SCOPES"}, rows)
	})
}

type keyRenameCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project the key belongs to."`
	KeyID     string `arg:"" help:"Key to rename, as \"key list\" shows it."`
	Name      string `arg:"" help:"What you will know the key by in lists, up to 64 characters; '' for no name."`
}

// Run renames the key.
func (c keyRenameCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		var key wire.Key
		body := struct {
			Name string `json:"name"`
		}{c.Name}
		if err := m.Call(a.Ctx, http.MethodPatch, keysPath(c.ProjectID)+"/"+url.PathEscape(c.KeyID), body, &key); err != nil {
			return err
		}
		if key.Name == "" {
			return a.Print(key, "Key %s has no name now.\n", key.KeyID)
		}
		return a.Print(key, "Key %s is named %s now.\n", key.KeyID, key.Name)
	})
}

type keyRevokeCmd struct {
	console.Directory
	ProjectID string `arg:"" help:"Project the key belongs to."`
	KeyID     string `arg:"" help:"Key to revoke, as \"key list\" shows it."`
}

// Run revokes the key.
func (c keyRevokeCmd) Run(a *console.App) error {
	return c.With(a, func(m *adminclient.Client) error {
		if err := m.Call(a.Ctx, http.MethodDelete, keysPath(c.ProjectID)+"/"+url.PathEscape(c.KeyID), nil, nil); err != nil {
			return err
		}
		return a.Print(map[string]any{"key_id": c.KeyID, "revoked": true}, "Key %s is revoked.\n", c.KeyID)
	})
}

// joined joins texts of any kind.
func joined[T ~string](all []T, separator string) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, separator)
}
