package cluster

import (
	"payledger/eventstore"
)

// Status is what a node knows of itself.
type Status struct {
	Leader   string // the sequencer, as far as known
	Leading  bool   // it is this node
	Ready    bool   // and it has LOG's end
	Group    uint64 // the last group that the file has
	Position eventstore.Position
	Stopped  error // why the node takes no part any more; nil: it does
}

// Status is the node's.
func (s *Store) Status() Status {
	leader, _ := s.leader.Load().(nodeName)
	last, _ := s.Store.Last(s.ctx)
	st := Status{Leader: string(leader), Leading: s.leading.Load(), Ready: s.ready.Load(), Group: s.number.Load(), Position: last}
	if why := s.stopped.Load(); why != nil {
		st.Stopped = *why
	}
	return st
}
