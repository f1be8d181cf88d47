package admin

import (
	"net/http"

	"payledger/httpapi/edge"
)

func (a *admin) nodeRoutes() []edge.Route {
	return []edge.Route{
		{Method: "GET", Path: "/admin/cluster", Operation: "adminCluster", Handle: a.nodes},
		{Method: "GET", Path: "/admin/cluster/status", Operation: "adminNodeStatus", Handle: a.status},
		{Method: "POST", Path: "/admin/cluster/{node}/promote", Operation: "adminPromote", Handle: a.promote},
	}
}

func (a *admin) nodes(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, map[string]any{"data": a.cfg.Nodes(x.Context())})
}

func (a *admin) promote(x *edge.Exchange) error {
	if err := a.cfg.Promote(x.Context(), x.Vars["node"]); err != nil {
		return edge.Unavailable("1", "The leader is the one it was, or not known: "+err.Error()+".")
	}
	return a.nodes(x)
}
