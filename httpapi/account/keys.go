package account

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
)

// keysPage is what keys.html is filled with.
type keysPage struct {
	pageData
	Keys []wire.AccountKey
}

func (v *visit) listKeys() error {
	keys, err := v.API.Keys(v.Caller)
	if err != nil {
		return err
	}
	return v.Render(http.StatusOK, "keys.html", keysPage{pageData: v.pageData(v.Locale.T("keys.title")), Keys: keys})
}

// keyForm is what key-new.html is filled with.
type keyForm struct {
	pageData
	Name   string
	Scopes []scopeChoice
}

type scopeChoice struct {
	Scope   projects.Scope
	May     bool // the session's key has it, so it can be given on
	Checked bool
}

func (v *visit) keyForm(chosen []string) keyForm {
	f := keyForm{pageData: v.pageData(v.Locale.T("keys.new")), Name: v.Value("name")}
	for _, s := range projects.AllScopes() {
		checked := s == projects.Read && chosen == nil || slices.Contains(chosen, string(s))
		f.Scopes = append(f.Scopes, scopeChoice{Scope: s, May: f.Who.May(s), Checked: checked})
	}
	return f
}

func (v *visit) newKey() error { return v.Render(http.StatusOK, "key-new.html", v.keyForm(nil)) }

func (v *visit) createKey() error {
	chosen := v.form["scopes"]
	page := func() keyForm { return v.keyForm(append([]string{}, chosen...)) }
	if len(chosen) == 0 {
		f := page()
		f.WrongField("scopes", f.T("keys.no_scope"))
		return v.Render(http.StatusUnprocessableEntity, "key-new.html", f)
	}
	made, err := v.API.IssueKey(v.Ctx(), v.Caller, v.Random("key"), strings.TrimSpace(v.Value("name")), chosen)
	if p := v.Refusal(err); p != nil {
		f := page()
		f.Refuse(p)
		return v.Render(p.Status, "key-new.html", f)
	}
	if err != nil {
		return err
	}
	return v.ShowSecret(secret{Kind: "key", Name: cmp.Or(made.Name, made.KeyID), Secret: made.APIKey, Path: "keys"})
}

// renamePage is what key-rename.html is filled with.
type renamePage struct {
	pageData
	Key  wire.AccountKey
	Name string // as it was entered
}

func (v *visit) renamePage(key wire.AccountKey, name string) renamePage {
	return renamePage{pageData: v.pageData(v.Locale.T("keys.rename")), Key: key, Name: name}
}

func (v *visit) nameKey() error {
	key, _, err := v.keyNamed()
	if err != nil {
		return err
	}
	return v.Render(http.StatusOK, "key-rename.html", v.renamePage(key, key.Name))
}

func (v *visit) renameKey() error {
	key, _, err := v.keyNamed()
	if err != nil {
		return err
	}
	err = v.API.RenameKey(v.Ctx(), v.Caller, key.KeyID, strings.TrimSpace(v.Value("name")))
	if p := v.Refusal(err); p != nil {
		page := v.renamePage(key, v.Value("name"))
		page.Refuse(p)
		return v.Render(p.Status, "key-rename.html", page)
	}
	if err != nil {
		return err
	}
	return v.Done("keys", "keys.renamed")
}

// revokePage is what key-revoke.html is filled with.
type revokePage struct {
	pageData
	Key  wire.AccountKey
	Last bool // no other is live
}

// keyNamed returns the key that the path names, and whether it is the last.
func (v *visit) keyNamed() (key wire.AccountKey, last bool, err error) {
	keys, err := v.API.Keys(v.Caller)
	if err != nil {
		return key, false, err
	}
	live := 0
	for _, k := range keys {
		if k.KeyID == v.Vars["key"] {
			key = k
		} else if !k.Revoked {
			live++
		}
	}
	if key.KeyID == "" {
		return key, false, &domain.Refusal{Code: domain.KeyNotFound}
	}
	return key, live == 0, nil
}

func (v *visit) confirmRevoke() error {
	key, last, err := v.keyNamed()
	if err != nil {
		return err
	}
	return v.Render(http.StatusOK, "key-revoke.html", revokePage{pageData: v.pageData(v.Locale.T("keys.revoke")), Key: key, Last: last})
}

func (v *visit) revokeKey() error {
	key, _, err := v.keyNamed()
	if err != nil {
		return err
	}
	err = v.API.RevokeKey(v.Ctx(), v.Caller, key.KeyID)
	switch {
	case !key.Current:
		return v.Tell("keys", err, "keys.revoked")
	case err != nil:
		return err
	}
	v.EndSession()
	return v.Leave("signin?why=out")
}
