package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/wire"
)

// replicate is bolt's hook: it waits for the machine's decision.
func (s *Store) replicate(g *bolt.Group) error {
	g.Writer, g.At = s.writer, s.clock().UnixMilli()
	s.post(staged{g})
	select {
	case decided := <-s.decision:
		if decided == nil {
			return errTakenBack
		}
		return nil
	case <-s.ctx.Done():
		return eventstore.ErrClosed
	}
}

// post gives the machine an event.
func (s *Store) post(e event) {
	s.mu.Lock()
	s.events = append(s.events, e)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// loop is the machine's goroutine. Effects that take time run beside it.
func (s *Store) loop() {
	for {
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		events := s.events
		s.events = nil
		s.mu.Unlock()
		for _, e := range events {
			for _, x := range s.node.step(s.now().Sub(s.began), e) {
				s.effect(x)
			}
			s.show()
		}
	}
}

func (s *Store) effect(x effect) {
	switch x := x.(type) {
	case publish:
		if x.group.First == 0 && !s.follows(x.group) {
			return // it is published again
		}
		nonce, number, message := x.group.Nonce, x.group.Number, wire.EncodeGroup(x.group) // before the group is decided
		s.beside(func() {
			if s.publish(number, message) != nil {
				s.post(unknown{nonce})
				return
			}
			s.post(accepted{nonce, number})
		})
	case republish:
		s.beside(func() { s.republish(x) })
	case look:
		s.beside(s.hear)
	case decide:
		s.decision <- x.group
	case apply:
		s.beside(func() { s.applyGroup(x.group) })
	case compare:
		s.beside(func() { s.compared(s.Compare(x.group)) })
	case compareEnd:
		s.beside(func() { s.compared(s.compareEnd(x.number)) })
	case fetch:
		s.beside(func() { s.fetch(x) })
	case askStatus:
		s.beside(func() { s.askStatus(x.term) })
	case ask:
		s.beside(func() { s.ask(x) })
	case askShown:
		s.askShown(x)
	case tellShown:
		s.tellShown(x)
	case answer:
		s.answer(x)
	case serve:
		s.serve(x)
	case send:
		s.beside(func() { s.send(x) })
	case giveUp:
		s.leave(x.call, eventstore.ErrUnconfirmed)
	case bridge:
		if first, before, err := s.End(); err == nil && x.group.First == first && x.group.Before == before {
			s.post(bridged{x.group.Number})
		}
	case conclude:
		s.beside(func() { s.conclude(x.group.Writer) })
	case doubt:
		s.doubted.Store(&doubted{x, s.now()})
		s.report(fmt.Errorf("node %s: %w", x.peer, x.why))
	case stepDown:
		s.beside(func() { s.stepDown(x.to) })
	case stop:
		s.stopped.Store(&x.why)
		s.report(fmt.Errorf("this node takes no part any more: %w", x.why))
	}
}

func (s *Store) serve(x serve) {
	s.mu.Lock()
	ready := s.reads[x.read]
	delete(s.reads, x.read)
	s.mu.Unlock()
	switch {
	case ready == nil:
	case x.failed:
		ready <- eventstore.ErrBusy
	default:
		s.readAt.Store(s.now().UnixMilli())
		ready <- nil
	}
}

func (s *Store) applyGroup(g *bolt.Group) {
	err := s.Apply(g)
	var mismatch *bolt.MismatchError
	for errors.Is(err, eventstore.ErrFull) && s.ctx.Err() == nil {
		s.report(err)
		s.sleep(time.Second)
		err = s.Apply(g)
	}
	switch {
	case err == nil:
		s.post(applied{})
	case errors.As(err, &mismatch), errors.As(err, new(*eventstore.UnreadableError)):
		s.post(misfit{err})
	default:
		s.report(err) // the file has failed or is closed
	}
}

// compared gives the machine the result of a comparison with LOG.
func (s *Store) compared(err error) {
	switch {
	case errors.As(err, new(*bolt.MismatchError)):
		s.post(mismatched{err})
	case err != nil:
		s.report(err)
	case !s.progress.Load().sure:
		s.post(matched{})
	}
}

// follows says in a group without records what it follows.
func (s *Store) follows(g *bolt.Group) bool {
	first, before, err := s.End()
	if err != nil {
		s.report(err)
		return false
	}
	g.First, g.Before, g.Writer, g.At = first, before, s.writer, s.clock().UnixMilli()
	return true
}

// conclude ends the node's part once its file says that LOG has ended.
func (s *Store) conclude(heir domain.ID) {
	for err := s.Conclude(heir); err != nil && s.ctx.Err() == nil; err = s.Conclude(heir) {
		s.report(err)
		s.sleep(time.Second)
	}
	s.post(mismatched{&EndedError{HeirName(heir)}})
}

// republish publishes a group again that LOG has forgotten.
func (s *Store) republish(x republish) {
	g, err := s.forgotten(x)
	if err != nil {
		s.compared(err)
		return
	}
	if s.publish(x.number, wire.EncodeGroup(g)) == nil { // what LOG has now says whether it was needed
		s.republished.Add(1)
	}
	s.hear()
}

// forgotten is the group for a slot of LOG which a file has and LOG has not. The error is a
// *bolt.MismatchError if LOG's last group is not that of the own file: then what the file has
// behind it is not LOG's either.
func (s *Store) forgotten(x republish) (g *bolt.Group, err error) {
	var ok bool
	if x.from == "" {
		if err := s.compareEnd(x.number - 1); err != nil {
			return nil, err
		}
		if g, ok, err = s.Group(s.ctx, x.number); err != nil {
			return nil, err
		}
	} else {
		all, err := s.groupsOf(string(x.from), x.number)
		if err != nil {
			return nil, err
		}
		if g = all[0]; len(g.Records) > 0 {
			if err := s.Check(g); err != nil {
				return nil, fmt.Errorf("node %s: its group %d is not published: %v", x.from, x.number, err) //nolint:errorlint // it is the peer's
			}
			ok = true
		}
	}
	if !ok {
		g = &bolt.Group{Number: x.number, Writer: s.writer, At: s.clock().UnixMilli()}
		binary.BigEndian.PutUint64(g.Nonce[:], uint64(s.now().UnixNano()))
	}
	return g, nil
}

// compareEnd compares LOG's last group, if it has any, with the own file.
func (s *Store) compareEnd(number uint64) error {
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	stream, err := s.js.Stream(ctx, StreamName)
	if err != nil {
		return err
	}
	m, err := stream.GetMsg(ctx, number)
	if errors.Is(err, jetstream.ErrMsgNotFound) && stream.CachedInfo().State.LastSeq <= number {
		return nil // it is trimmed, or empty
	}
	if err != nil {
		return err
	}
	g, err := wire.DecodeGroup(m.Data)
	if err != nil {
		return err
	}
	return s.Compare(g)
}
