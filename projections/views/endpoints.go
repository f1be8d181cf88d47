package views

import (
	"context"

	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// endpointsView holds the position at which each webhook endpoint was added, in
// memory as well as in the file: project, 0, the endpoint's id. The value is
// the position as 8 bytes. The endpoint itself is in its project.
type endpointsView struct {
	*table.Table[eventstore.Position]
	added map[string]eventstore.Position // by key; guarded by the DB, written only by the fold
}

func newEndpointsView(db *table.DB) *endpointsView {
	return &endpointsView{
		Table: table.New(db, "endpoints", values.AppendUint64[eventstore.Position], values.ParseUint64),
		added: make(map[string]eventstore.Position),
	}
}

func (v *endpointsView) fold(c *change) {
	switch e := c.Event.(type) {
	case projects.WebhookEndpointAdded:
		key, at := endpointKey(c.Record.Stream.ID, e.EndpointID), c.Record.Position
		if _, ok := v.added[key]; ok {
			v.Replace(key, at)
		} else {
			v.Insert(key, at)
		}
		v.added[key] = at
	case projects.WebhookEndpointRemoved:
		key := endpointKey(c.Record.Stream.ID, e.EndpointID)
		if _, ok := v.added[key]; ok {
			v.Delete(key)
			delete(v.added, key)
		}
	}
}

// load reads the positions of an opened file.
func (v *endpointsView) load(tx tx, _ eventstore.Position) error {
	return v.Each(tx, func(key string, at eventstore.Position) error {
		v.added[key] = at
		return nil
	})
}

func endpointKey(project, endpoint string) string { return project + "\x00" + endpoint }

// endpointAt is a webhook endpoint and the position of the event that added
// it: it is notified of later events only.
type endpointAt struct {
	projects.Endpoint
	added eventstore.Position
}

func (v *Views) endpointsOf(project string) []endpointAt {
	v.db.RLock()
	defer v.db.RUnlock()
	p, ok := v.projects.live.at(project)
	if !ok || len(p.Endpoints) == 0 {
		return nil
	}
	all := make([]endpointAt, len(p.Endpoints))
	for i, one := range p.Endpoints {
		all[i] = endpointAt{one, v.endpoints.added[endpointKey(project, one.ID)]}
	}
	return all
}

// EachEndpoint calls fn for each of a project's webhook endpoints, disabled ones
// included, oldest first, with the position at which it was added. The endpoints
// are as they were at the position or later, and only for that it waits. It is
// answered from memory; the endpoints' slices must not be modified.
func (v *Views) EachEndpoint(
	ctx context.Context, project string, at eventstore.Position, fn func(one projects.Endpoint, added eventstore.Position),
) error {
	if err := v.log.Wait(ctx, at); err != nil {
		return err
	}
	for _, one := range v.endpointsOf(project) {
		fn(one.Endpoint, one.added)
	}
	return nil
}

// OldestEndpoint is the lowest position at which one of the present webhook
// endpoints of all projects was added; false when there is none.
func (v *Views) OldestEndpoint(ctx context.Context) (eventstore.Position, bool, error) {
	if err := v.fresh(ctx); err != nil {
		return 0, false, err
	}
	v.db.RLock()
	defer v.db.RUnlock()
	var oldest eventstore.Position
	for _, at := range v.endpoints.added {
		if oldest == 0 || at < oldest {
			oldest = at
		}
	}
	return oldest, oldest != 0, nil
}
