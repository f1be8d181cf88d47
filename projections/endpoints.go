package projections

import (
	"context"
	"encoding/binary"

	bolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// endpointsView holds where in the log each webhook endpoint was added, in
// memory as well as in the file: project, 0, the endpoint's id. The value is
// the position as 8 bytes. What the endpoint is now stands in its project.
type endpointsView struct {
	table[eventstore.Position]
	added map[string]eventstore.Position // by key; guarded by Engine.mu, written by the fold alone
}

func newEndpointsView() *endpointsView {
	return &endpointsView{
		table: newTable("endpoints", appendPosition, parsePosition),
		added: make(map[string]eventstore.Position),
	}
}

func (*endpointsView) version() int { return 1 }

func (v *endpointsView) fold(c *change) {
	switch e := c.event.(type) {
	case domain.WebhookEndpointAdded:
		key, at := endpointKey(c.record.Stream.ID, e.EndpointID), c.record.Position
		if _, ok := v.added[key]; ok {
			v.put(key, at)
		} else {
			v.insert(key, at)
		}
		v.added[key] = at
	case domain.WebhookEndpointRemoved:
		key := endpointKey(c.record.Stream.ID, e.EndpointID)
		if _, ok := v.added[key]; ok {
			v.remove(key)
			delete(v.added, key)
		}
	}
}

// load reads the positions of an opened file.
func (v *endpointsView) load(tx *bolt.Tx) error {
	return tx.Bucket([]byte(v.name)).ForEach(func(key, raw []byte) error {
		at, err := v.open(key, raw)
		v.added[string(key)] = at
		return err
	})
}

func endpointKey(project, endpoint string) string { return project + "\x00" + endpoint }

func appendPosition(b []byte, p eventstore.Position) ([]byte, error) {
	return binary.BigEndian.AppendUint64(b, uint64(p)), nil
}

func parsePosition(b []byte) (eventstore.Position, error) {
	if len(b) != 8 {
		return 0, errLength
	}
	return eventstore.Position(binary.BigEndian.Uint64(b)), nil
}

// endpointAt is a webhook endpoint and the position of the event that added
// it: it is notified of later events only.
type endpointAt struct {
	domain.Endpoint
	added eventstore.Position
}

func (e *Engine) endpointsOf(project string) []endpointAt {
	e.mu.RLock()
	defer e.mu.RUnlock()
	p, ok := e.projects.live.at(project)
	if !ok || len(p.Endpoints) == 0 {
		return nil
	}
	all := make([]endpointAt, len(p.Endpoints))
	for i, one := range p.Endpoints {
		all[i] = endpointAt{one, e.endpoints.added[endpointKey(project, one.ID)]}
	}
	return all
}

// EachEndpoint calls fn for each of a project's webhook endpoints, disabled
// ones included, oldest first, with the position at which it was added, as they
// are at the position or later: it waits for no more than that, and where the
// views have come that far, for nothing. It is answered from memory; the
// endpoints' slices must not be modified.
func (e *Engine) EachEndpoint(
	ctx context.Context, project string, at eventstore.Position, fn func(one domain.Endpoint, added eventstore.Position),
) error {
	if err := e.Wait(ctx, at); err != nil {
		return err
	}
	for _, one := range e.endpointsOf(project) {
		fn(one.Endpoint, one.added)
	}
	return nil
}

// OldestEndpoint is the lowest position at which a webhook endpoint was added,
// of those there are, whatever their project; false when there is none.
func (e *Engine) OldestEndpoint(ctx context.Context) (eventstore.Position, bool, error) {
	if err := e.fresh(ctx); err != nil {
		return 0, false, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	var oldest eventstore.Position
	for _, at := range e.endpoints.added {
		if oldest == 0 || at < oldest {
			oldest = at
		}
	}
	return oldest, oldest != 0, nil
}
