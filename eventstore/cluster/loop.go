package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// replicate is bolt's hook: it waits for the machine's decision.
func (s *Store) replicate(g *bolt.Group) error {
	g.Writer, g.At = s.writer, s.now().UnixMilli()
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
		nonce, number, message := x.group.Nonce, x.group.Number, encode(x.group) // before the group is decided
		s.beside(func() {
			if s.publish(number, message) != nil {
				s.post(unknown{nonce})
				return
			}
			s.post(accepted{nonce, number})
		})
	case republish:
		s.beside(func() { s.republish(x.number) })
	case look:
		s.beside(s.hear)
	case decide:
		s.decision <- x.group
	case apply:
		s.beside(func() { s.applyGroup(x.group) })
	case compare:
		s.beside(func() {
			if err := s.Compare(x.group); errors.As(err, new(*bolt.MismatchError)) {
				s.post(mismatched{err})
			}
		})
	case fetch:
		s.beside(func() { s.fetch(x) })
	case askStatus:
		s.beside(func() { s.askStatus(x.term) })
	case ask:
		s.beside(func() { s.ask(x) })
	case answer:
		s.answer(x)
	case serve:
		s.serve(x)
	case send:
		s.beside(func() { s.send(x) })
	case giveUp:
		s.leave(x.call, eventstore.ErrUnconfirmed)
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
	case errors.As(err, &mismatch):
		s.post(mismatched{err})
	default:
		s.report(err) // the file has failed or is closed
	}
}

func (s *Store) republish(number uint64) {
	g, ok, err := s.Group(s.ctx, number)
	if err != nil {
		s.report(err)
		return
	}
	if !ok {
		g = &bolt.Group{Number: number, Writer: s.writer, At: s.now().UnixMilli()}
		binary.BigEndian.PutUint64(g.Nonce[:], uint64(s.now().UnixNano()))
	}
	if s.publish(number, encode(g)) == nil { // what LOG has now says whether it was needed
		s.republished.Add(1)
	}
	s.hear()
}
