package merchant

import (
	"net/http"

	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// accountSession answers GET /account-api/session.
func (a *API) AccountSession(x *edge.Exchange) error {
	p, k := x.Project, x.Key
	return x.Reply(http.StatusOK, wire.Session{
		ProjectID: p.ID, ProjectName: p.Name, KeyID: k.ID, Scopes: k.Scopes, Settings: p.Settings, Sandbox: a.cfg.Sandbox != nil,
	})
}
