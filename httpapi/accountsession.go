package httpapi

import (
	"net/http"

	"payledger/domain"
)

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
func (a *merchants) accountSession(x *exchange) error {
	p, k := x.project, x.key
	return x.reply(http.StatusOK, sessionView{
		ProjectID: p.ID, ProjectName: p.Name, KeyID: k.ID, Scopes: k.Scopes, Settings: p.Settings, Sandbox: a.cfg.Sandbox != nil,
	})
}
