package admincmd

import (
	"errors"
	"strings"

	"payledger/cmd/payledger/cli"
	"payledger/httpapi/wire"
)

// Key groups the commands on API keys.
type Key struct {
	Create keyCreate `cmd:"" help:"Issue a new API key."`
	List   keyList   `cmd:"" help:"List a project's API keys."`
	Rename keyRename `cmd:"" help:"Give an API key another name."`
	Revoke keyRevoke `cmd:"" help:"Take an API key out of use, at once and for good."`
}

type keyCreate struct {
	Anyway
	ProjectID string   `arg:"" help:"Project the key belongs to." json:"project_id"`
	Name      string   `help:"What you will know the key by in lists, up to 64 characters." json:"name,omitzero"`
	Scopes    []string `help:"What the key may do: payments:write, refunds:write, webhooks:write, read, audit. Default: all." placeholder:"SCOPE" json:"scopes,omitempty"`
}

// Validate refuses an empty list of scopes: it would not mean none, but all.
func (c keyCreate) Validate() error {
	if c.Scopes != nil && len(c.Scopes) == 0 {
		return errors.New("--scopes: want at least one; leave the flag out for all")
	}
	return nil
}

// Help is shown by --help.
func (keyCreate) Help() string {
	return `A project can have several live keys. To rotate one: create a new key, move the
clients over, revoke the old one.`
}

// Run issues the key.
func (c keyCreate) Run(a *cli.App) error {
	key := issuedKey{ProjectID: c.ProjectID}
	return ask(a, c, "POST /admin/projects/{project_id}/keys", &key, func() error {
		return a.Print(key, "Key      %s\nAPI key  %s  (shown this once)\n", key.KeyID, key.APIKey)
	})
}

type keyList struct {
	Anyway
	ProjectID string `arg:"" help:"Project whose keys to list." json:"project_id"`
}

// Run lists the keys.
func (c keyList) Run(a *cli.App) error {
	return table(a, c, "GET /admin/projects/{project_id}/keys", "No keys.", "KEY, NAME, STATE, SCOPES", func(k wire.Key) []any {
		state := "live"
		if k.Revoked {
			state = "revoked"
		}
		return []any{k.KeyID, k.Name, state, joined(k.Scopes, " ")}
	})
}

type keyRename struct {
	Anyway
	ProjectID string `arg:"" help:"Project the key belongs to." json:"project_id"`
	KeyID     string `arg:"" help:"Key to rename, as \"key list\" shows it." json:"key_id"`
	Name      string `arg:"" help:"What you will know the key by in lists, up to 64 characters; \"\" for no name." json:"name"`
}

// Run renames the key.
func (c keyRename) Run(a *cli.App) error {
	return show(a, c, "PATCH /admin/projects/{project_id}/keys/{key_id}", func(k wire.Key) error {
		if k.Name == "" {
			return a.Print(k, "Key %s has no name now.\n", k.KeyID)
		}
		return a.Print(k, "Key %s is named %s now.\n", k.KeyID, k.Name)
	})
}

type keyRevoke struct {
	Anyway
	ProjectID string `arg:"" help:"Project the key belongs to." json:"project_id"`
	KeyID     string `arg:"" help:"Key to revoke, as \"key list\" shows it." json:"key_id"`
}

// Run revokes the key.
func (c keyRevoke) Run(a *cli.App) error {
	return do(a, c, "DELETE /admin/projects/{project_id}/keys/{key_id}",
		map[string]any{"key_id": c.KeyID, "revoked": true}, "Key %s is revoked.\n", c.KeyID)
}

// joined joins texts of any kind.
func joined[T ~string](all []T, separator string) string {
	texts := make([]string, len(all))
	for i, t := range all {
		texts[i] = string(t)
	}
	return strings.Join(texts, separator)
}
