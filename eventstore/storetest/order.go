package storetest

import (
	"bytes"
	"errors"
	"strings"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// checkOrder: positions count from 1, sequences within each stream, and Load
// and Scan show what Append answered.
func checkOrder(s *subject) {
	heads := map[eventstore.Stream]eventstore.Stored{}
	byStream := map[eventstore.Stream][]eventstore.Stored{}
	var all []eventstore.Stored
	for i := range 30 {
		st := stream("prj_a", i%4)
		c := s.commit(st, heads[st].Position)
		if i%3 == 0 {
			c = s.claiming(st, heads[st].Position, byte(i))
		}
		r := s.add(c)
		s.same("Append", r, eventstore.Stored{
			Position: eventstore.Position(i + 1), Stream: st, Sequence: heads[st].Sequence + 1, Prev: heads[st].Position,
			Commit: c.ID, At: domain.IDTime(c.ID).Time(), Claim: c.Claim, Body: c.Record.Body,
		})
		heads[st] = r
		byStream[st] = append(byStream[st], r)
		all = append(all, r)
	}
	for range 2 {
		s.same("Scan", s.scan(0, eventstore.Filter{}), all)
		for st, want := range byStream {
			s.same("Load", s.load(st), want)
			for i, last := range want {
				s.same("LoadAfter", s.loadAfter(st, last.Position), append([]eventstore.Stored(nil), want[i+1:]...))
			}
			s.same("LoadAfter of a position between", s.loadAfter(st, want[1].Position-1), want[1:])
		}
		if n := len(s.load(stream("prj_a", 99))); n != 0 {
			s.Errorf("a stream that does not exist has %d records", n)
		}
		if p := s.last(); p != 30 {
			s.Errorf("Last = %d, want 30", p)
		}
		s.reopen()
	}
}

// checkBodies: any bytes of the caller are stored as they are.
func checkBodies(s *subject) {
	bodies := []string{
		`{"payload":{"<":"\u003c","n":12345678901234567890}}`, "\x00\xff\xfe", "\u2028 \U0001F600 \"", strings.Repeat("x", 5000),
		strings.Repeat("y", eventstore.MaxBody),
	}
	for i, want := range bodies {
		c := s.commit(stream("prj_a", i), 0)
		c.Record.Body = []byte(want)
		r := s.add(c)
		if string(r.Body) != want {
			s.Errorf("body %d: Append answered other bytes", i)
		}
	}
	for range 2 {
		for i, r := range s.scan(0, eventstore.Filter{}) {
			if string(r.Body) != bodies[i] {
				s.Errorf("body %d: Scan answers other bytes", i)
			}
		}
		s.reopen()
	}
}

// checkBounds: a commit outside the bounds is refused and leaves nothing.
func checkBounds(s *subject) {
	for what, spoil := range map[string]func(*eventstore.Commit){
		"no id":          func(c *eventstore.Commit) { c.ID = domain.ID{} },
		"no body":        func(c *eventstore.Commit) { c.Record.Body = nil },
		"long body":      func(c *eventstore.Commit) { c.Record.Body = bytes.Repeat([]byte("x"), eventstore.MaxBody+1) },
		"no project":     func(c *eventstore.Commit) { c.Record.Stream.Project = "" },
		"no kind":        func(c *eventstore.Commit) { c.Record.Stream.Kind = "" },
		"no stream id":   func(c *eventstore.Commit) { c.Record.Stream.ID = "" },
		"zero in kind":   func(c *eventstore.Commit) { c.Record.Stream.Kind = "a\x00b" },
		"long stream id": func(c *eventstore.Commit) { c.Record.Stream.ID = strings.Repeat("x", eventstore.MaxName+1) },
	} {
		c := s.commit(stream("prj_a", 1), 0)
		spoil(&c)
		if _, err := eventstore.AppendOne(s.Context(), s.store, c); err == nil {
			s.Errorf("%s: the commit was taken", what)
		}
	}
	if p := s.last(); p != 0 {
		s.Errorf("Last = %d, want 0", p)
	}
	long := eventstore.Stream{Project: strings.Repeat("p", eventstore.MaxName), Kind: strings.Repeat("k", eventstore.MaxName), ID: strings.Repeat("i", eventstore.MaxName)}
	want := s.add(s.commit(long, 0))
	s.reopen()
	s.same("Load", s.load(long), []eventstore.Stored{want})
}

// checkConflict: only the stream's last position is accepted, and a refused
// commit leaves nothing.
func checkConflict(s *subject) {
	st := stream("prj_a", 1)
	first := s.add(s.commit(st, 0))
	other := s.add(s.commit(stream("prj_a", 2), 0))
	second := s.add(s.commit(st, first.Position))
	for _, expect := range []eventstore.Position{0, first.Position, other.Position, second.Position + 1, 1 << 62} {
		s.wantConflict(s.commit(st, expect), second.Position)
	}
	s.wantConflict(s.commit(stream("prj_a", 3), second.Position), 0)
	s.same("Load", s.load(st), []eventstore.Stored{first, second})
	if p := s.last(); p != 3 {
		s.Errorf("Last = %d, want 3", p)
	}
}

func (s *subject) wantConflict(c eventstore.Commit, actual eventstore.Position) {
	s.Helper()
	_, err := eventstore.AppendOne(s.Context(), s.store, c)
	s.isConflict(err, c.Record.Stream, actual)
}

func (s *subject) isConflict(err error, st eventstore.Stream, actual eventstore.Position) {
	s.Helper()
	var conflict *eventstore.ConflictError
	if !errors.As(err, &conflict) {
		s.Errorf("the answer is %v, want a conflict", err)
		return
	}
	s.same("conflict", conflict, &eventstore.ConflictError{Stream: st, Actual: actual})
}

// checkAllOrNothing: a commit that is refused for one thing leaves nothing of
// the other.
func checkAllOrNothing(s *subject) {
	st := stream("prj_a", 1)
	holder := s.claiming(st, 0, 1)
	first := s.add(holder)
	refused := s.claiming(st, 0, 2)
	s.wantConflict(refused, first.Position)
	if _, ok := s.claimed(refused); ok {
		s.Error("a commit that met a conflict kept its claim")
	}
	second := s.add(s.claiming(st, first.Position, 2))
	lost := s.claiming(stream("prj_a", 2), 0, 1)
	if _, err := eventstore.AppendOne(s.Context(), s.store, lost); err == nil {
		s.Error("the key was claimed twice")
	}
	if n := len(s.load(lost.Record.Stream)); n != 0 {
		s.Errorf("a commit whose key was taken left %d records", n)
	}
	s.reopen()
	s.same("Scan", s.scan(0, eventstore.Filter{}), []eventstore.Stored{first, second})
}

// checkDuplicate: a commit that is sent again is answered again.
func checkDuplicate(s *subject) {
	plain, claiming := s.commit(stream("prj_a", 1), 0), s.claiming(stream("prj_a", 2), 0, 1)
	first, second := s.add(plain), s.add(claiming)
	for range 2 {
		s.same("the commit again", s.add(plain), first)
		s.same("the claiming commit again", s.add(claiming), second)
		s.reopen()
	}
	third := s.add(s.commit(claiming.Record.Stream, second.Position))
	s.same("the claiming commit again, no longer its stream's last", s.add(claiming), second)
	for range 2 {
		s.same("the commit again, no longer the log's last", s.add(plain), first)
		if p := s.last(); p != third.Position {
			s.Errorf("Last = %d, want %d", p, third.Position)
		}
		s.reopen()
	}
}

// checkGapless: 64 writers at once leave positions without a gap, and a
// follower sees every one in order.
func checkGapless(s *subject) {
	const writers, each = 64, 10
	var followed []eventstore.Stored
	var follower, writing sync.WaitGroup
	done := errors.New("seen all")
	follower.Go(func() {
		err := s.store.Follow(s.Context(), 0, eventstore.Filter{}, func(r eventstore.Stored) error {
			if followed = append(followed, r); len(followed) == writers*each {
				return done
			}
			return nil
		})
		if !errors.Is(err, done) {
			s.Errorf("Follow: %v", err)
		}
	})
	for w := range writers {
		writing.Go(func() {
			st, head := stream("prj_a", w), eventstore.Position(0)
			for range each {
				c := s.commit(st, head)
				c.Patient = w%4 == 0
				r, err := eventstore.AppendOne(s.Context(), s.store, c)
				if err != nil {
					s.Errorf("Append: %v", err)
					return
				}
				if r.Position <= head {
					s.Errorf("position %d after %d", r.Position, head)
				}
				head = r.Position
			}
		})
	}
	writing.Wait()
	if s.Failed() {
		_ = s.store.Close() // ends the follower
	}
	follower.Wait()
	if s.Failed() {
		return
	}
	for i, r := range followed {
		if r.Position != eventstore.Position(i+1) {
			s.Fatalf("the %d-th record has position %d", i+1, r.Position)
		}
	}
	s.same("Scan", s.scan(0, eventstore.Filter{}), followed)
}

// checkCursor: a reader that remembers its position continues after a restart without loss or
// repetition.
func checkCursor(s *subject) {
	var want, got []eventstore.Stored
	after := eventstore.Position(0)
	for round := range 4 {
		for i := range 7 {
			want = append(want, s.add(s.commit(stream("prj_a", 100*round+i), 0)))
		}
		for r, err := range s.store.Scan(s.Context(), after, eventstore.Filter{}) {
			if err != nil {
				s.Fatal(err)
			}
			got, after = append(got, r), r.Position
			if len(got)%5 == 0 {
				break
			}
		}
		s.reopen()
	}
	s.same("read in parts", append(got, s.scan(after, eventstore.Filter{})...), want)
}
