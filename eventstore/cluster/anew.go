package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore/cluster/founding"
)

// errLost: the servers have said for a while that there is no LOG, and there was one.
var errLost = errors.New("the NATS servers have lost LOG; every node has its whole log. Once all three nodes are served: \"payledger cluster rebase\"")

// Rebase makes LOG anew if the servers have lost it: see founding.Rebase. Any node may call
// it, also one that waits for LOG.
func Rebase(ctx context.Context, c *nats.Conn, log domain.ID, nodes []string) (founding.Base, error) {
	return founding.Rebase(ctx, c, log, founding.Nodes(log), nodes)
}

// lost reports, of the answer to a question for LOG, whether the servers have said for a
// while that there is none.
func (s *Store) lost(answer error) bool {
	since, now := s.missing.Load(), s.now()
	switch {
	case !errors.Is(answer, jetstream.ErrStreamNotFound):
		s.missing.Store(nil)
	case since == nil:
		s.missing.Store(&now)
	default:
		return now.Sub(*since) >= founding.Lost
	}
	return false
}

// standing answers where this node stands.
func (s *Store) standing(question []byte) []byte {
	r, err := s.Replica()
	if p := s.progress.Load(); p != nil {
		r.Applied = p.group
	}
	var st founding.Standing
	if err == nil {
		st, err = founding.StandingOf(s.ctx, s.Store, r.Applied, question)
	}
	if since := s.missing.Load(); since != nil {
		st.MissingMillis = s.now().Sub(*since).Milliseconds()
	}
	if why := s.stopped.Load(); why != nil {
		st.Stopped = (*why).Error()
	}
	b, jsonErr := json.Marshal(st)
	if err := errors.Join(err, jsonErr); err != nil {
		s.report(fmt.Errorf("telling where this node stands: %w", err))
		return nil
	}
	return b
}
