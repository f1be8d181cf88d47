package admin

import (
	"net/http"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Routes are the routes in use.
type Routes interface {
	List() []wire.Route
	// Reload reads the routes file again. The error is for the operator; nothing has
	// changed then.
	Reload() ([]wire.Route, error)
}

func (a *admin) connectorRoutes() []edge.Route {
	return []edge.Route{
		{Method: "GET", Path: "/admin/routes", Operation: "adminListRoutes", Handle: func(x *edge.Exchange) error {
			return x.Reply(http.StatusOK, wire.Page[wire.Route]{Data: a.cfg.Routes.List()})
		}},
		{Method: "POST", Path: "/admin/routes/reload", Operation: "adminReloadRoutes", Handle: a.reloadRoutes},
	}
}

// reloadRoutes shows the error itself, because only the operator reads it.
func (a *admin) reloadRoutes(x *edge.Exchange) error {
	all, err := a.cfg.Routes.Reload()
	if err != nil {
		return wire.Problem{Code: domain.ValidationFailed, Detail: "The routes stay as they are. " + err.Error()}
	}
	return x.Reply(http.StatusOK, wire.Page[wire.Route]{Data: all})
}
