package httpapi

import (
	"net/http"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
)

// accountPath is before what the account needs and programs of merchants do
// not. Nothing under it can be reached from the network: its rows are in the
// table of inner requests only.
const accountPath = "/account-api"

// accountRoutes is that part of the table. Days are those of UTC.
//
//	GET    /account-api/session → sessionView
//	GET    /account-api/keys → {"data":[accountKey…]}, newest first
//	POST   /account-api/keys {"scopes"} → 201 {"key_id","scopes","revoked","api_key"}: the secret is told here only
//	POST   /account-api/keys/{key_id}/revoke {"confirm"?: true} → accountKey; 409 confirmation_required
//	GET    /account-api/overview?from=2026-11-01&to=2026-11-30 → overviewView; both days are part of it
//	GET    /account-api/totals?… the filters of GET /v1/payments → totalsView
//	GET    /account-api/alerts → {"data":[alertView…]}, the most urgent first
//	GET    /account-api/payments/{id} → paymentFacts
//	GET    /account-api/lookup?id= → {"data":[placeView…]}, empty when it is nothing of the project's
func (a *api) accountRoutes() []edge.Route {
	const keys, read, write = accountPath + "/keys", domain.Read, domain.PaymentsWrite
	return []edge.Route{
		{Method: "GET", Path: accountPath + "/session", Operation: "accountSession", Handle: a.accountSession},
		{Method: "GET", Path: keys, Operation: "accountKeys", Scope: read, Handle: a.accountKeys},
		{Method: "POST", Path: keys, Operation: "accountIssueKey", Scope: write, Body: true, Handle: a.accountIssueKey},
		{Method: "POST", Path: keys + "/{key_id}/revoke", Operation: "accountRevokeKey", Scope: write, Body: true, Optional: true, Handle: a.accountRevokeKey},
		{Method: "GET", Path: accountPath + "/overview", Operation: "accountOverview", Scope: read, Handle: a.accountOverview},
		{Method: "GET", Path: accountPath + "/totals", Operation: "accountTotals", Scope: read, Handle: a.accountTotals},
		{Method: "GET", Path: accountPath + "/alerts", Operation: "accountAlerts", Scope: read, Handle: a.accountAlerts},
		{Method: "GET", Path: accountPath + "/payments/{id}", Operation: "accountPayment", Scope: read, Handle: a.accountPayment},
		{Method: "GET", Path: accountPath + "/lookup", Operation: "accountLookup", Scope: read, Handle: a.accountLookup},
	}
}

// callerOf is the session's caller, whose requests were admitted by their row.
func (a *api) callerOf(x *edge.Exchange) merchant.Caller { return merchant.CallerOf(x) }

func (a *api) accountSession(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, a.m.Session(a.callerOf(x)))
}

// data is a list that has one page.
func data[T any](x *edge.Exchange, rows []T, err error) error {
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, map[string]any{"data": rows})
}

// one answers an object.
func one[T any](x *edge.Exchange, status int, v T, err error) error {
	if err != nil {
		return err
	}
	return x.Reply(status, v)
}

func (a *api) accountKeys(x *edge.Exchange) error {
	rows, err := a.m.Keys(a.callerOf(x))
	return data(x, rows, err)
}

func (a *api) accountIssueKey(x *edge.Exchange) error {
	names, err := scopesOf(x.Body)
	if err != nil {
		return err
	}
	key, err := a.m.IssueKey(x.Context(), a.callerOf(x), names)
	return one(x, http.StatusCreated, key, err)
}

// scopesOf reads a body that names scopes.
func scopesOf(body []byte) ([]string, error) {
	members, err := edge.DecodeObject(body)
	if err != nil {
		return nil, err
	}
	var fields domain.FieldErrors
	var scopes []string
	for _, m := range members {
		f := &domain.FieldError{Field: m.Name, Code: domain.WrongType}
		switch {
		case m.Name != "scopes":
			f.Code = domain.UnknownField
		case m.Value.Kind() == 'n':
			continue
		default:
			all, isList := edge.TextsOf(m.Value)
			if _, known := merchant.ScopesOf(all); isList && known {
				scopes = all
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
		return nil, edge.InOrder(fields)
	}
	return scopes, nil
}

func (a *api) accountRevokeKey(x *edge.Exchange) error {
	confirmed, err := confirmOf(x.Body)
	if err != nil {
		return err
	}
	key, err := a.m.RevokeKey(x.Context(), a.callerOf(x), x.Vars["key_id"], confirmed)
	return one(x, http.StatusOK, key, err)
}

func (a *api) accountOverview(x *edge.Exchange) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	v, err := a.m.Overview(x.Context(), a.callerOf(x), values)
	return one(x, http.StatusOK, v, err)
}

func (a *api) accountTotals(x *edge.Exchange) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	v, err := a.m.Totals(x.Context(), a.callerOf(x), values)
	return one(x, http.StatusOK, v, err)
}

func (a *api) accountAlerts(x *edge.Exchange) error {
	rows, err := a.m.Alerts(x.Context(), a.callerOf(x))
	return data(x, rows, err)
}

func (a *api) accountPayment(x *edge.Exchange) error {
	v, err := a.m.PaymentFacts(x.Context(), a.callerOf(x), x.Vars["id"])
	return one(x, http.StatusOK, v, err)
}

func (a *api) accountLookup(x *edge.Exchange) error {
	q, err := x.Query("id")
	if err != nil {
		return err
	}
	rows, err := a.m.Lookup(x.Context(), a.callerOf(x), q["id"])
	return data(x, rows, err)
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
