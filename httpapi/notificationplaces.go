package httpapi

import (
	"slices"
	"sync"
)

// How many notifications of one route, and of one public address among them, are read
// or judged at the same time.
const (
	maxOfRoute = 128
	maxOfOne   = 16
)

// places bound the notifications of each route. A place that waits for a body is given
// to the next notification when there is no other, so those that never send theirs do
// not keep others out.
type places struct {
	mu    sync.Mutex
	taken map[string][]*place // by route, in the order in which they were taken
}

// place is what a notification holds from its header until its answer.
type place struct {
	route, address string // "": an address without a share

	// cut ends the reading of the body. It is nil once the body is there or the
	// place was given to another.
	cut func()
}

// take takes a place. When all of the route or of the address are taken, the one of
// them that has waited longest for its body is cut off. It answers false when all of
// them are being judged.
func (ps *places) take(p *place) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	taken, own := ps.taken[p.route], 0
	for _, q := range taken {
		if p.address != "" && q.address == p.address {
			own++
		}
	}
	if own >= maxOfOne || len(taken) >= maxOfRoute {
		i := slices.IndexFunc(taken, func(q *place) bool {
			return q.cut != nil && (own < maxOfOne || q.address == p.address)
		})
		if i < 0 {
			return false
		}
		taken[i].cut()
		taken[i].cut = nil
		taken = slices.Delete(taken, i, i+1)
	}
	ps.taken[p.route] = append(taken, p)
	return true
}

// read notes that the place waits for no body any more. It answers false when the place
// was given to another.
func (ps *places) read(p *place) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	still := p.cut != nil
	p.cut = nil
	return still
}

// leave gives the place back.
func (ps *places) leave(p *place) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.taken[p.route] = slices.DeleteFunc(ps.taken[p.route], func(q *place) bool { return q == p })
	if len(ps.taken[p.route]) == 0 {
		delete(ps.taken, p.route)
	}
}
