package checkpoints

import (
	"bytes"
	"context"
	"time"

	"payledger/eventstore/translog"
	"payledger/httpapi/merchant"
)

// askAgain is the pause before nodes that did not vouch for a checkpoint are asked again.
const askAgain = 5 * time.Second

// keep makes another node's checkpoint the newest, unless there is a newer one, before this node
// vouches for it, so that it never vouches for another tree. It was compared with the own tree.
func (s *Signer) keep(next translog.Checkpoint, signed []byte) error {
	select {
	case <-s.compared:
		if s.suspect != nil {
			return s.suspect
		}
	default:
		return merchant.ErrComparing
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signed != nil && next.Size <= s.newest.Size {
		return nil
	}
	return s.write(next, signed)
}

// settled reports whether there is nothing to ask the nodes about the newest checkpoint.
func (s *Signer) settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.nodes == nil || s.vouched == len(s.nodes.node.Nodes) || s.Now().Sub(s.asked) < askAgain
}

// cosigned adds what the nodes vouch to a checkpoint, and publishes the newest one.
func (s *Signer) cosigned(ctx context.Context, signed []byte) ([]byte, error) {
	s.mu.Lock()
	newest := bytes.Equal(signed, s.signed)
	s.mu.Unlock()
	if newest && s.settled() {
		return signed, nil
	}
	with, n := s.nodes.collect(ctx, signed)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !bytes.Equal(signed, s.signed) {
		return with, nil // there is a newer one, or another caller has asked
	}
	s.asked = s.Now()
	if n >= s.vouched {
		if err := s.write(s.newest, with); err != nil {
			return with, err
		}
		s.vouched = n
		s.publish(with)
	}
	return s.signed, nil
}
