package admin

import (
	"net/http"

	"payledger/httpapi/edge"
)

func (a *admin) nodeRoutes() []edge.Route {
	return []edge.Route{
		{Method: "GET", Path: "/admin/cluster", Operation: "adminCluster", Handle: a.nodes},
		{Method: "POST", Path: "/admin/cluster/{node}/promote", Operation: "adminPromote", Handle: a.promote},
		{Method: "POST", Path: "/admin/cluster/end", Operation: "adminEndCluster", Handle: a.endCluster},
		{Method: "POST", Path: "/admin/cluster/rebase", Operation: "adminRebaseCluster", Endless: true, Handle: a.rebaseCluster},
	}
}

func (a *admin) nodes(x *edge.Exchange) error {
	return x.Reply(http.StatusOK, map[string]any{"data": a.cfg.Nodes(x.Context())})
}

func (a *admin) promote(x *edge.Exchange) error {
	if err := a.cfg.Promote(x.Context(), x.Vars["node"]); err != nil {
		return edge.Unavailable("1", "The sequencer is the one it was, or not known: "+err.Error()+".")
	}
	return a.nodes(x)
}

func (a *admin) endCluster(x *edge.Exchange) error {
	if err := a.cfg.EndCluster(x.Context()); err != nil {
		return edge.Unavailable("1", "The cluster has not ended, or that is not known: "+err.Error()+".")
	}
	return a.nodes(x)
}

func (a *admin) rebaseCluster(x *edge.Exchange) error {
	if err := a.cfg.Rebase(x.Context(), x.Actor); err != nil {
		return edge.Unavailable("1", "The common write-ahead log was not recreated: "+err.Error()+".")
	}
	return x.Reply(http.StatusAccepted, struct{}{})
}
