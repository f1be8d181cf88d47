package account

import (
	"net/http"
	"net/url"

	"payledger/domain"
)

func (h *handler) keyPages() []page {
	return []page{
		{method: "GET", path: "keys", serve: (*visit).listKeys},
		{method: "GET", path: "keys/new", serve: (*visit).newKey},
		{method: "POST", path: "keys/new", serve: (*visit).createKey},
		{method: "GET", path: "keys/{key}/revoke", serve: (*visit).confirmRevoke},
		{method: "POST", path: "keys/{key}/revoke", serve: (*visit).revokeKey},
	}
}

// apiKey is an API key as its merchant sees it.
type apiKey struct {
	ID         string          `json:"key_id"`
	Scopes     []domain.Scope  `json:"scopes"`
	Revoked    bool            `json:"revoked"`
	CreatedAt  *domain.Instant `json:"created_at"`
	LastUsedAt *domain.Instant `json:"last_used_at"`
	Current    bool            `json:"current"` // the session's own
	APIKey     string          `json:"api_key"` // in the answer to creation only
}

const keysPath = "/account-api/keys"

func (v *visit) keys() ([]apiKey, error) {
	list, err := get[listOf[apiKey]](v, keysPath, nil)
	return list.Data, err
}

// keysPage is what keys.html is filled with.
type keysPage struct {
	desk
	Keys []apiKey
}

func (v *visit) listKeys() error {
	keys, err := v.keys()
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "keys.html", keysPage{desk: v.desk(v.locale.T("keys.title")), Keys: keys})
}

// keyForm is what key-new.html is filled with.
type keyForm struct {
	desk
	Scopes []scopeChoice
}

type scopeChoice struct {
	Scope   domain.Scope
	May     bool // the session's key has it, so it can be given on
	Checked bool
}

func (v *visit) keyForm(chosen []string) keyForm {
	f := keyForm{desk: v.desk(v.locale.T("keys.new"))}
	for _, s := range domain.AllScopes() {
		c := scopeChoice{Scope: s, May: v.who.May(string(s)), Checked: s == domain.Read && chosen == nil}
		for _, name := range chosen {
			c.Checked = c.Checked || name == string(s)
		}
		f.Scopes = append(f.Scopes, c)
	}
	return f
}

func (v *visit) newKey() error { return v.render(http.StatusOK, "key-new.html", v.keyForm(nil)) }

func (v *visit) createKey() error {
	chosen := v.form["scopes"]
	page := func() keyForm { return v.keyForm(append([]string{}, chosen...)) }
	if len(chosen) == 0 {
		f := page()
		f.Fields = map[string]string{"scopes": f.T("keys.no_scope")}
		f.Alert = &notice{Tone: "bad", Text: f.T("account.check_fields")}
		return v.render(http.StatusUnprocessableEntity, "key-new.html", f)
	}
	made, err := post[apiKey](v, keysPath, map[string]any{"scopes": chosen})
	if p := refusal(err); p != nil {
		f := page()
		f.refuse(p)
		return v.render(p.Status, "key-new.html", f)
	}
	if err != nil {
		return err
	}
	return v.leaveToSecret(reveal{kind: "key", name: made.ID, secret: made.APIKey, path: "keys"})
}

// revokePage is what key-revoke.html is filled with.
type revokePage struct {
	desk
	Key  apiKey
	Last bool // no other is live
}

// keyNamed answers the key that the path names, and whether it is the last.
func (v *visit) keyNamed() (key apiKey, last bool, err error) {
	keys, err := v.keys()
	if err != nil {
		return key, false, err
	}
	live := 0
	for _, k := range keys {
		if k.ID == v.vars["key"] {
			key = k
		} else if !k.Revoked {
			live++
		}
	}
	if key.ID == "" {
		return key, false, &Problem{Status: http.StatusNotFound, Code: string(domain.KeyNotFound)}
	}
	return key, live == 0, nil
}

func (v *visit) confirmRevoke() error {
	key, last, err := v.keyNamed()
	if err != nil {
		return err
	}
	return v.render(http.StatusOK, "key-revoke.html", revokePage{desk: v.desk(v.locale.T("keys.revoke")), Key: key, Last: last})
}

func (v *visit) revokeKey() error {
	key, _, err := v.keyNamed()
	if err != nil {
		return err
	}
	do := func() error {
		_, err := post[apiKey](v, keysPath+"/"+url.PathEscape(key.ID)+"/revoke", map[string]any{"confirm": true})
		return err
	}
	if key.Current {
		if err := do(); err != nil {
			return err
		}
		v.endSession()
		return v.leave("signin?why=out")
	}
	return v.tell("keys", do, "keys.revoked")
}
