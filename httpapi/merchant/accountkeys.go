package merchant

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

func (a *API) accountKeyOf(x *edge.Exchange, k domain.Key) wire.AccountKey {
	v := wire.AccountKey{Key: wire.Key{KeyID: k.ID, Scopes: k.Scopes, Revoked: k.Revoked}, Current: k.ID == x.Key.ID}
	if id, ok := domain.ParseID(strings.TrimPrefix(k.ID, keyPrefix)); ok {
		at := domain.IDTime(id)
		v.CreatedAt = &at
	}
	if a.cfg.KeyTimes != nil {
		if at, ok := a.cfg.KeyTimes.LastUse(x.Project.ID, k.ID); ok {
			v.LastUsedAt = &at
		}
	}
	return v
}

// accountKeys answers GET /account-api/keys.
func (a *API) AccountKeys(x *edge.Exchange) error {
	rows := []wire.AccountKey{}
	for _, k := range slices.Backward(x.Project.Keys) {
		rows = append(rows, a.accountKeyOf(x, k))
	}
	return x.Reply(http.StatusOK, map[string]any{"data": rows})
}

// mayHandle refuses when a key has a scope that the caller's has not: nobody
// can give themselves more rights, nor take a stronger key out of use.
func mayHandle(x *edge.Exchange, scopes []domain.Scope) error {
	for _, s := range scopes {
		if !x.Key.Has(s) {
			return wire.Problem{
				Code: domain.ScopeMissing, RequiredScope: s,
				Detail: "A key can be created or revoked only with a key that has all its scopes. See required_scope.",
			}
		}
	}
	return nil
}

// accountIssueKey answers POST /account-api/keys.
func (a *API) AccountIssueKey(x *edge.Exchange) error {
	members, err := edge.DecodeObject(x.Body)
	if err != nil {
		return err
	}
	var fields domain.FieldErrors
	var scopes []domain.Scope
	for _, m := range members {
		f := &domain.FieldError{Field: m.Name, Code: domain.WrongType}
		switch {
		case m.Name != "scopes":
			f.Code = domain.UnknownField
		case m.Value.Kind() == 'n':
			continue
		default:
			all, isList := edge.TextsOf(m.Value)
			var known bool
			if scopes, known = ScopesOf(all); isList && known {
				continue
			}
			if isList {
				f.Code, f.Allowed = domain.InvalidValue, edge.Texts(domain.AllScopes())
			}
		}
		fields = append(fields, f)
	}
	if len(fields) == 0 && scopes == nil {
		fields = append(fields, &domain.FieldError{Field: "scopes", Code: domain.Required})
	}
	if len(fields) > 0 {
		return edge.InOrder(fields)
	}
	slices.SortFunc(scopes, func(a, b domain.Scope) int {
		return cmp.Compare(slices.Index(domain.AllScopes(), a), slices.Index(domain.AllScopes(), b))
	})
	scopes = slices.Compact(scopes)
	if err := mayHandle(x, scopes); err != nil {
		return err
	}
	_, key, err := IssueKey(x.Context(), a.cfg, x.Project.ID, scopes)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusCreated, key)
}

// accountRevokeKey answers POST /account-api/keys/{key_id}/revoke. Whoever
// would sign themselves out, or leave the project without a key, has to say so.
func (a *API) AccountRevokeKey(x *edge.Exchange) error {
	confirmed, err := confirmOf(x.Body)
	if err != nil {
		return err
	}
	p, id := x.Project, x.Vars["key_id"]
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
		return wire.Problem{
			Code: domain.ConfirmationRequired,
			Detail: "This is the project's last key: without it nothing can call the API or sign in until the operator issues another. " +
				`Send {"confirm": true} to revoke it all the same.`,
		}
	case id == x.Key.ID:
		return wire.Problem{
			Code:   domain.ConfirmationRequired,
			Detail: `This is the key you are signed in with: revoking it signs you out. Send {"confirm": true} to revoke it all the same.`,
		}
	}
	p, err = ExecuteOn(x.Context(), a.cfg, p.ID, domain.RevokeKey{KeyID: id}, false)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, a.accountKeyOf(x, p.Keys[i]))
}

// confirmOf reads a body that has nothing to say but confirm.
func confirmOf(body []byte) (bool, error) {
	members, err := edge.DecodeObject(body)
	if err != nil {
		return false, err
	}
	var fields domain.FieldErrors
	confirmed := false
	for _, m := range members {
		switch kind := m.Value.Kind(); {
		case m.Name != "confirm":
			fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.UnknownField})
		case kind != 't' && kind != 'f':
			fields = append(fields, &domain.FieldError{Field: m.Name, Code: domain.WrongType})
		default:
			confirmed = kind == 't'
		}
	}
	if len(fields) > 0 {
		return false, edge.InOrder(fields)
	}
	return confirmed, nil
}
