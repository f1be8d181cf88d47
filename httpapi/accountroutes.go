package httpapi

import (
	"net/http"

	"payledger/domain"
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
func (a *api) accountRoutes() []route {
	const keys, read, write = accountPath + "/keys", domain.Read, domain.PaymentsWrite
	return []route{
		{method: "GET", path: accountPath + "/session", operation: "accountSession", handle: a.accountSession},
		{method: "GET", path: keys, operation: "accountKeys", scope: read, handle: a.accountKeys},
		{method: "POST", path: keys, operation: "accountIssueKey", scope: write, body: true, handle: a.accountIssueKey},
		{method: "POST", path: keys + "/{key_id}/revoke", operation: "accountRevokeKey", scope: write, body: true, optional: true, handle: a.accountRevokeKey},
		{method: "GET", path: accountPath + "/overview", operation: "accountOverview", scope: read, handle: a.accountOverview},
		{method: "GET", path: accountPath + "/totals", operation: "accountTotals", scope: read, handle: a.accountTotals},
		{method: "GET", path: accountPath + "/alerts", operation: "accountAlerts", scope: read, handle: a.accountAlerts},
		{method: "GET", path: accountPath + "/payments/{id}", operation: "accountPayment", scope: read, handle: a.accountPayment},
		{method: "GET", path: accountPath + "/lookup", operation: "accountLookup", scope: read, handle: a.accountLookup},
	}
}

// sessionView is whom a session acts for.
type sessionView struct {
	ProjectID   string          `json:"project_id"`
	ProjectName string          `json:"project_name"`
	KeyID       string          `json:"key_id"`
	Scopes      []domain.Scope  `json:"scopes"`
	Settings    domain.Settings `json:"settings"`
	Sandbox     bool            `json:"sandbox"` // payments can be settled by /v1/sandbox/…
}

// accountSession answers GET /account-api/session.
func (a *api) accountSession(x *exchange) error {
	p, k := x.caller.project, x.caller.key
	return x.reply(http.StatusOK, sessionView{
		ProjectID: p.ID, ProjectName: p.Name, KeyID: k.ID, Scopes: k.Scopes, Settings: p.Settings, Sandbox: a.cfg.Sandbox != nil,
	})
}
