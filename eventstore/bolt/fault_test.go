package bolt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
)

// load is what writers sent to a log and the answers they got. Each writer has its
// own stream and sends one commit at a time; every second one claims a key.
type load struct {
	mu    sync.Mutex
	sent  map[domain.ID]eventstore.Commit
	acked map[domain.ID]eventstore.Position
	err   error // the first that a writer met
	grew  chan struct{}
}

func newLoad() *load {
	return &load{
		sent: make(map[domain.ID]eventstore.Commit), acked: make(map[domain.ID]eventstore.Position),
		grew: make(chan struct{}, 1),
	}
}

// loadCommit is a writer's n-th commit, from 0.
func loadCommit(writer, n int, expect eventstore.Position) eventstore.Commit {
	id := domain.ID{1, 160, 112, 116}
	id[4], id[5] = byte(n>>8), byte(n)
	id[15] = byte(writer)
	c := eventstore.Commit{ID: id, Record: eventstore.Record{
		Stream: eventstore.PaymentStream("prj_a", domain.ID{1, 160, 112, 116, 15: byte(writer)}), Expect: expect,
		Body: fmt.Appendf(nil, `{"id":%q,"padding":"%0*d"}`, id, 40*(n%9), n),
	}}
	if n%2 == 0 {
		c.Claim = &eventstore.Claim{Key: domain.Digest{byte(writer), byte(n), byte(n >> 8), 1}, Fingerprint: domain.Digest{2}}
	}
	return c
}

// write runs this many writers until each has sent limit commits, one got an error,
// or ctx ended. heard is called with each answer before the writer's next commit.
func (l *load) write(ctx context.Context, s eventstore.Store, writers, limit int, heard func(writer, n int, p eventstore.Position)) {
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			expect := eventstore.Position(0)
			for n := 0; n < limit && ctx.Err() == nil; n++ {
				c := loadCommit(w, n, expect)
				l.send(c)
				r, err := eventstore.AppendOne(context.WithoutCancel(ctx), s, c)
				if err != nil {
					l.fail(err)
					return
				}
				expect = r.Position
				if heard != nil {
					heard(w, n, expect)
				}
				l.ack(c.ID, expect)
			}
		})
	}
	all.Wait()
}

func (l *load) send(c eventstore.Commit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[c.ID] = c
}

func (l *load) ack(id domain.ID, p eventstore.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.acked[id] = p
	select {
	case l.grew <- struct{}{}:
	default:
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// reached waits for this many answers.
func (l *load) reached(t testing.TB, answers int) {
	t.Helper()
	for {
		l.mu.Lock()
		n, err := len(l.acked), l.err
		l.mu.Unlock()
		switch {
		case n >= answers:
			return
		case err != nil:
			t.Fatalf("after %d answers: %v", n, err)
		}
		select {
		case <-l.grew:
		case <-t.Context().Done():
			t.Fatal("the test ended")
		}
	}
}

// wrongs opens the log and lists the broken promises. There are none when every
// acknowledged commit is at its position and under its key, nothing is there twice
// or was never sent, and Verify finds no fault.
func (l *load) wrongs(path string) (wrongs []string) {
	wrong := func(format string, args ...any) { wrongs = append(wrongs, fmt.Sprintf(format, args...)) }
	ctx := context.Background()
	s, err := OpenReadOnly(path)
	if err != nil {
		return []string{"OpenReadOnly: " + err.Error()}
	}
	defer func() { _ = s.Close() }()
	if err := s.Verify(ctx); err != nil {
		wrong("Verify: %v", err)
	}
	found, claimed := make(map[domain.ID]eventstore.Position), make(map[claims.Name]eventstore.Position)
	for r, err := range s.Scan(ctx, 0, eventstore.Filter{}) {
		if err != nil {
			wrong("Scan: %v", err)
			break
		}
		c, sent := l.sent[r.Commit]
		switch {
		case !sent:
			wrong("the record at %d was never sent", r.Position)
		case found[r.Commit] != 0:
			wrong("commit %s is at %d and at %d", r.Commit, found[r.Commit], r.Position)
		case !bytes.Equal(r.Body, c.Record.Body) || r.Stream != c.Record.Stream || (r.Claim == nil) != (c.Claim == nil):
			wrong("the record at %d is not what was sent", r.Position)
		}
		found[r.Commit] = r.Position
		if r.Claim == nil {
			continue
		}
		name := nameOf(r.Stream.Project, r.Claim)
		if at := claimed[name]; at != 0 {
			wrong("the key of the record at %d is that of the one at %d", r.Position, at)
		}
		claimed[name] = r.Position
	}
	for id, p := range l.acked {
		if found[id] != p {
			wrong("commit %s was answered with position %d and is at %d", id, p, found[id])
		}
	}
	slices.Sort(wrongs)
	return wrongs
}

// intact checks the log, then sends every commit again, as a client does that got no
// answer: each is recorded once.
func (l *load) intact(t testing.TB, what, path string) {
	t.Helper()
	if wrongs := l.wrongs(path); len(wrongs) > 0 {
		t.Fatalf("%s: %d wrongs: %q", what, len(wrongs), first(wrongs))
	}
	s, err := Open(path, Options{MinFree: 1})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	defer func() { _ = s.Close() }()
	for id, c := range l.sent {
		if _, ok := l.acked[id]; ok && c.Claim == nil {
			continue
		}
		r, err := eventstore.AppendOne(t.Context(), s, c)
		var conflict *eventstore.ConflictError
		var claimed *eventstore.ClaimedError
		switch {
		case errors.As(err, &conflict), errors.As(err, &claimed):
			t.Errorf("%s: sending commit %s again: %v", what, id, err)
		case err != nil:
			t.Fatalf("%s: %v", what, err)
		}
		l.acked[id] = r.Position
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if wrongs := l.wrongs(path); len(wrongs) > 0 {
		t.Fatalf("%s: %d wrongs after sending again: %q", what, len(wrongs), first(wrongs))
	}
}

// broken fails unless the log shows that its store broke a promise.
func (l *load) broken(t testing.TB, what, path string) {
	t.Helper()
	wrongs := l.wrongs(path)
	if len(wrongs) == 0 {
		t.Errorf("%s: all %d commits are there: the test does not notice a store that does not sync", what, len(l.acked))
	}
	t.Logf("%s: %d wrongs, such as %q", what, len(wrongs), first(wrongs))
}

func first(wrongs []string) []string { return wrongs[:min(len(wrongs), 5)] }
