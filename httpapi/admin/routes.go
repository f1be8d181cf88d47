package admin

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// Routes are the routes in use.
type Routes interface {
	List() []wire.Route
	// Reload reads the routes file again. The error is for the operator; nothing has
	// changed then. That another file is in use is recorded with its cause.
	Reload(context.Context, eventstore.Cause) ([]wire.Route, error)
	// Pause and Resume are for routes of the list; their effect is stored, and recorded with its
	// cause, when they return.
	Pause(ctx context.Context, why eventstore.Cause, route, reason string) error
	Resume(ctx context.Context, why eventstore.Cause, route string) error
}

func (a *admin) connectorRoutes() []edge.Route {
	return []edge.Route{
		{Method: "GET", Path: "/admin/routes", Operation: "adminListRoutes", Handle: func(x *edge.Exchange) error {
			return x.Reply(http.StatusOK, wire.Page[wire.Route]{Data: a.cfg.Routes.List()})
		}},
		{Method: "POST", Path: "/admin/routes/reload", Operation: "adminReloadRoutes", Handle: a.reloadRoutes},
		{Method: "POST", Path: "/admin/routes/{route}/pause", Operation: "adminPauseRoute", Body: true, Optional: true, Handle: a.pauseRoute},
		{Method: "POST", Path: "/admin/routes/{route}/resume", Operation: "adminResumeRoute", Handle: a.resumeRoute},
	}
}

// maxPauseReason is the longest reason of a pause, in bytes.
const maxPauseReason = 200

func (a *admin) pauseRoute(x *edge.Exchange) error {
	var req struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal(x.Body, &req, json.RejectUnknownMembers(true)); err != nil ||
		len(req.Reason) > maxPauseReason || strings.ContainsFunc(req.Reason, unicode.IsControl) {
		return edge.BadParameter("reason", fmt.Sprintf("Send one line of text, of at most %d bytes.", maxPauseReason))
	}
	return a.changeRoute(x, func(route string) error { return a.cfg.Routes.Pause(x.Context(), causeOf(x), route, req.Reason) })
}

func (a *admin) resumeRoute(x *edge.Exchange) error {
	return a.changeRoute(x, func(route string) error { return a.cfg.Routes.Resume(x.Context(), causeOf(x), route) })
}

// checkRoute refuses the name of a route that there is not, where the routes are known.
// "" is none.
func (a *admin) checkRoute(route string) error {
	if route == "" || a.cfg.Routes == nil {
		return nil
	}
	var names []string
	for _, r := range a.cfg.Routes.List() {
		if r.Route == route {
			return nil
		}
		names = append(names, r.Route)
	}
	return wire.Problem{Code: domain.RouteNotFound, Detail: "There is no such route." + edge.KnownNames("Routes", route, names)}
}

// changeRoute changes the route in the path and answers it.
func (a *admin) changeRoute(x *edge.Exchange, change func(route string) error) error {
	route := x.Vars["route"]
	named := func(r wire.Route) bool { return r.Route == route }
	if err := a.checkRoute(route); err != nil {
		return err
	}
	if err := change(route); err != nil {
		return err
	}
	all := a.cfg.Routes.List()
	if i := slices.IndexFunc(all, named); i >= 0 {
		return x.Reply(http.StatusOK, all[i])
	}
	return x.Reply(http.StatusOK, wire.Route{Route: route, Rules: []domain.Rule{}}) // it was listed only because it was paused
}

// reloadRoutes shows the error itself, because only the operator reads it.
func (a *admin) reloadRoutes(x *edge.Exchange) error {
	all, err := a.cfg.Routes.Reload(x.Context(), causeOf(x))
	if err != nil {
		return wire.Problem{Code: domain.ValidationFailed, Detail: "The routes stay as they are: " + err.Error()}
	}
	return x.Reply(http.StatusOK, wire.Page[wire.Route]{Data: all})
}
