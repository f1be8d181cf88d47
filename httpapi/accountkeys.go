package httpapi

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
)

// accountKey is an API key as its merchant sees it.
type accountKey struct {
	keyView

	CreatedAt  *domain.Instant `json:"created_at"`   // null when its id does not tell
	LastUsedAt *domain.Instant `json:"last_used_at"` // null when not known to have been used
	Current    bool            `json:"current"`      // the session's own
}

func (a *merchants) accountKeyOf(x *exchange, k domain.Key) accountKey {
	v := accountKey{keyView: keyView{KeyID: k.ID, Scopes: k.Scopes, Revoked: k.Revoked}, Current: k.ID == x.key.ID}
	if id, ok := domain.ParseID(strings.TrimPrefix(k.ID, keyPrefix)); ok {
		at := domain.IDTime(id)
		v.CreatedAt = &at
	}
	if a.cfg.KeyTimes != nil {
		if at, ok := a.cfg.KeyTimes.LastUse(x.project.ID, k.ID); ok {
			v.LastUsedAt = &at
		}
	}
	return v
}

// accountKeys answers GET /account-api/keys.
func (a *merchants) accountKeys(x *exchange) error {
	rows := []accountKey{}
	for _, k := range slices.Backward(x.project.Keys) {
		rows = append(rows, a.accountKeyOf(x, k))
	}
	return x.reply(http.StatusOK, map[string]any{"data": rows})
}

// mayHandle refuses when a key has a scope that the caller's has not: nobody
// can give themselves more rights, nor take a stronger key out of use.
func mayHandle(x *exchange, scopes []domain.Scope) error {
	for _, s := range scopes {
		if !x.key.Has(s) {
			return problem{
				Code: domain.ScopeMissing, RequiredScope: s,
				Detail: "A key can be created or revoked only with a key that has all its scopes. See required_scope.",
			}
		}
	}
	return nil
}

// accountIssueKey answers POST /account-api/keys.
func (a *merchants) accountIssueKey(x *exchange) error {
	members, err := decodeObject(x.body)
	if err != nil {
		return err
	}
	var fields domain.FieldErrors
	var scopes []domain.Scope
	for _, m := range members {
		f := &domain.FieldError{Field: m.name, Code: domain.WrongType}
		switch {
		case m.name != "scopes":
			f.Code = domain.UnknownField
		case m.value.Kind() == 'n':
			continue
		default:
			all, isList := textsOf(m.value)
			var known bool
			if scopes, known = scopesOf(all); isList && known {
				continue
			}
			if isList {
				f.Code, f.Allowed = domain.InvalidValue, texts(domain.AllScopes())
			}
		}
		fields = append(fields, f)
	}
	if len(fields) == 0 && scopes == nil {
		fields = append(fields, &domain.FieldError{Field: "scopes", Code: domain.Required})
	}
	if len(fields) > 0 {
		return inOrder(fields)
	}
	slices.SortFunc(scopes, func(a, b domain.Scope) int {
		return cmp.Compare(slices.Index(domain.AllScopes(), a), slices.Index(domain.AllScopes(), b))
	})
	scopes = slices.Compact(scopes)
	if err := mayHandle(x, scopes); err != nil {
		return err
	}
	_, key, err := issueKey(x.ctx(), a.cfg, x.project.ID, scopes)
	if err != nil {
		return err
	}
	return x.reply(http.StatusCreated, key)
}

// accountRevokeKey answers POST /account-api/keys/{key_id}/revoke. Whoever
// would sign themselves out, or leave the project without a key, has to say so.
func (a *merchants) accountRevokeKey(x *exchange) error {
	confirmed, err := confirmOf(x.body)
	if err != nil {
		return err
	}
	p, id := x.project, x.vars["key_id"]
	i := slices.IndexFunc(p.Keys, func(k domain.Key) bool { return k.ID == id })
	if i < 0 {
		return &domain.Refusal{Code: domain.KeyNotFound}
	}
	if err := mayHandle(x, p.Keys[i].Scopes); err != nil {
		return err
	}
	others := slices.ContainsFunc(p.Keys, func(k domain.Key) bool { return k.ID != id && !k.Revoked })
	switch {
	case confirmed || p.Keys[i].Revoked:
	case !others:
		return problem{
			Code: domain.ConfirmationRequired,
			Detail: "This is the project's last key: without it nothing can call the API or sign in until the operator issues another. " +
				`Send {"confirm": true} to revoke it all the same.`,
		}
	case id == x.key.ID:
		return problem{
			Code:   domain.ConfirmationRequired,
			Detail: `This is the key you are signed in with: revoking it signs you out. Send {"confirm": true} to revoke it all the same.`,
		}
	}
	p, err = executeOn(x.ctx(), a.cfg, p.ID, domain.RevokeKey{KeyID: id}, false)
	if err != nil {
		return err
	}
	return x.reply(http.StatusOK, a.accountKeyOf(x, p.Keys[i]))
}

// confirmOf reads a body that has nothing to say but confirm.
func confirmOf(body []byte) (bool, error) {
	members, err := decodeObject(body)
	if err != nil {
		return false, err
	}
	var fields domain.FieldErrors
	confirmed := false
	for _, m := range members {
		switch kind := m.value.Kind(); {
		case m.name != "confirm":
			fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.UnknownField})
		case kind != 't' && kind != 'f':
			fields = append(fields, &domain.FieldError{Field: m.name, Code: domain.WrongType})
		default:
			confirmed = kind == 't'
		}
	}
	if len(fields) > 0 {
		return false, inOrder(fields)
	}
	return confirmed, nil
}
