package bolt

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/storetest"
)

var (
	testLOG   = domain.ID{1, 160, 112, 116, 98, 91, 15: 1}
	errRefuse = errors.New("the others did not agree")
)

// agreement agrees to every group, unless refuse says otherwise, and keeps a copy.
type agreement struct {
	mu     sync.Mutex
	groups []*Group // the first one is number 2
	refuse func() bool
}

func (a *agreement) replicate(g *Group) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refuse != nil && a.refuse() {
		return errRefuse
	}
	n := uint64(len(a.groups)) + 2
	g.Number, g.Nonce, g.Writer, g.At = n, Nonce{byte(n), byte(n >> 8)}, domain.ID{7}, 1_700_000_000_000+int64(n)
	kept := *g
	kept.Records = nil
	for _, r := range g.Records {
		kept.Records = append(kept.Records, bytes.Clone(r))
	}
	a.groups = append(a.groups, &kept)
	return nil
}

func joined(t *testing.T, path string, replicate func(*Group) error) *Store {
	t.Helper()
	s, err := Open(path, Options{MinFree: 1, Replicate: replicate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Join(testLOG, 1); err != nil {
		t.Fatal(err)
	}
	return s
}

// A store whose groups the other nodes agree to passes the same tests as any other.
func TestReplicatedStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it is the same suite on the same store, with a hook that agrees: run without -short")
	}
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Log {
		u, _ := create(t).(*underTest)
		u.replicate = new(agreement).replicate
		return u
	})
}

// memoryOf is what staging keeps in memory of the durable records.
func memoryOf(t *testing.T, s *Store, tried []eventstore.Commit) (spans spans, claimed []eventstore.Position, ids map[domain.ID]eventstore.Position) {
	t.Helper()
	if err := s.readRecent(); err != nil {
		t.Fatal(err)
	}
	ids = make(map[domain.ID]eventstore.Position)
	for _, c := range tried {
		ids[c.ID] = s.staging.ids.Find(c.ID)
		if c.Claim == nil {
			continue
		}
		at, err := s.claims.find(nameOf(c.Record.Stream.Project, c.Claim), c.Claim)
		if err != nil {
			t.Fatal(err)
		}
		claimed = append(claimed, at)
	}
	return s.staging.spans, claimed, ids
}

// A group that the other nodes do not agree to leaves nothing in the file or in
// memory: memory equals what the file gives when it is opened again. Its commits can
// be sent again.
func TestTakenBack(t *testing.T) {
	t.Parallel()
	path, random := newLog(t), rand.New(rand.NewPCG(1, 2))
	a := &agreement{refuse: func() bool { return random.IntN(2) == 0 }}
	s := joined(t, path, a.replicate)
	var tried []eventstore.Commit
	heads := map[eventstore.Stream]eventstore.Position{}
	for round := range 60 {
		var group []eventstore.Commit
		for i := range 1 + random.IntN(8) {
			c := commitOf(100*round+i, 0)
			if err := c.ID.SetTime(uint64(100+round/5) * spanMillis); err != nil { // a new span now and then
				t.Fatal(err)
			}
			c.Record.Stream.ID = commitOf(random.IntN(20), 0).Record.Stream.ID
			c.Record.Expect = heads[c.Record.Stream]
			switch random.IntN(3) {
			case 0:
				c.Claim = nil
			case 1:
				c.Claim.Forever = true
			}
			tried = append(tried, c)
			group = append(group, c)
		}
		before, _ := s.Last(t.Context())
		for i, r := range s.Append(t.Context(), group...) {
			switch {
			case errors.Is(r.Err, errRefuse):
				if last, _ := s.Last(t.Context()); last != before {
					t.Fatalf("round %d: the log went on from %d to %d", round, before, last)
				}
			case r.Err == nil:
				heads[group[i].Record.Stream] = r.Position
			case !errors.As(r.Err, new(*eventstore.ConflictError)):
				t.Fatal(r.Err)
			}
		}
		s.writing.Lock()
		spans, claimed, ids := memoryOf(t, s, tried)
		s.writing.Unlock()
		if err := s.Verify(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%7 != 0 {
			continue
		}
		_ = s.Close()
		s = joined(t, path, a.replicate)
		if again, claims, known := memoryOf(t, s, tried); !reflect.DeepEqual(spans, again) && len(spans)+len(again) > 0 ||
			!reflect.DeepEqual(claimed, claims) || !reflect.DeepEqual(ids, known) {
			t.Fatalf("round %d: in memory %v %v %v, in the file %v %v %v", round, spans, claimed, ids, again, claims, known)
		}
	}
	if len(a.groups) < 10 || len(s.staging.spans) != spansKept {
		t.Errorf("%d groups, %d spans", len(a.groups), len(s.staging.spans))
	}
}

// Another file that applies the groups gets the same records byte for byte, and can
// make each group again. A group that does not follow changes nothing.
func TestApply(t *testing.T) {
	t.Parallel()
	a := &agreement{}
	from, path := joined(t, newLog(t), a.replicate), newLog(t)
	never := func(*Group) error { return errRefuse }
	to := joined(t, path, never)
	var all []eventstore.Commit
	for i := range 700 {
		all = append(all, commitOf(i, 0))
	}
	for _, r := range from.Append(t.Context(), all...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if n := len(a.groups); n < 3 || len(a.groups[0].Records) > MaxGroupCommits {
		t.Fatalf("%d groups, the first has %d records", n, len(a.groups[0].Records))
	}
	second := commitOf(1000, 1)
	second.Record.Stream, second.Claim = all[0].Record.Stream, nil
	if _, err := eventstore.AppendOne(t.Context(), from, second); err != nil {
		t.Fatal(err)
	}
	for _, g := range a.groups {
		for what, spoil := range map[string]func(*Group){
			"an older number": func(g *Group) { g.Number = 1 },
			"a gap":           func(g *Group) { g.First++ },
			"another history": func(g *Group) { g.Before[3] ^= 1 },
			"a wrong byte": func(g *Group) {
				last := len(g.Records) - 1
				g.Records[last] = bytes.Clone(g.Records[last])
				g.Records[last][9] ^= 1
			},
			"a record twice": func(g *Group) { g.Records = append(g.Records, g.Records[0]) },
		} {
			wrong := *g
			wrong.Records = append([][]byte(nil), g.Records...)
			spoil(&wrong)
			if err := to.Check(&wrong); !errors.As(err, new(*MismatchError)) {
				t.Fatalf("group %d with %s is checked: %v", g.Number, what, err)
			}
			if err := to.Apply(&wrong); !errors.As(err, new(*MismatchError)) {
				t.Fatalf("group %d with %s: %v", g.Number, what, err)
			}
		}
		before, err := to.Replica()
		if err := errors.Join(err, to.Check(g)); err != nil {
			t.Fatal(err)
		}
		if after, err := to.Replica(); err != nil || after != before {
			t.Fatalf("a check changes %v to %v: %v", before, after, err)
		}
		if err := to.Apply(g); err != nil {
			t.Fatal(err)
		}
		if err := to.Apply(g); !errors.As(err, new(*MismatchError)) {
			t.Fatalf("group %d twice: %v", g.Number, err)
		}
		other := *g
		other.Nonce[15] ^= 1
		if err := errors.Join(to.Compare(g), from.Compare(g)); err != nil {
			t.Errorf("group %d differs from itself: %v", g.Number, err)
		}
		if err := to.Compare(&other); !errors.As(err, new(*MismatchError)) {
			t.Errorf("group %d with another nonce: %v", g.Number, err)
		}
		if g.Number++; g.Number == uint64(len(a.groups))+2 { // one that the file does not have
			if err := to.Compare(g); !errors.As(err, new(*MismatchError)) {
				t.Errorf("records that are not in the file: %v", err)
			}
		}
		g.Number--
	}
	for range 2 {
		same(t, from, to)
		for _, want := range a.groups {
			got, ok, err := to.Group(t.Context(), want.Number)
			if err != nil || !ok || !reflect.DeepEqual(got, want) {
				t.Fatalf("group %d: %v, %v, %v", want.Number, got, ok, err)
			}
		}
		if _, ok, err := to.Group(t.Context(), 1); ok || err != nil {
			t.Error("a group without records is made again", err)
		}
		if err := to.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		if _, err := eventstore.AppendOne(t.Context(), to, commitOf(2000, 0)); !errors.Is(err, errRefuse) {
			t.Error(err)
		}
		_ = to.Close()
		to = joined(t, path, never)
	}
	_ = to.Close()
	if _, err := openDefault(path); !errors.Is(err, ErrClustered) {
		t.Errorf("a cluster's log was opened alone: %v", err)
	}
}

func same(t *testing.T, a, b *Store) {
	t.Helper()
	one, err := a.Replica()
	other, err2 := b.Replica()
	if err != nil || err2 != nil || one != other {
		t.Fatalf("%v and %v: %v, %v", one, other, err, err2)
	}
	values := func(s *Store) (all [][]byte) {
		_ = s.file.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketRecords).ForEach(func(_, v []byte) error {
				all = append(all, bytes.Clone(v))
				return nil
			})
		})
		return all
	}
	if !reflect.DeepEqual(values(a), values(b)) {
		t.Fatal("the files have other records")
	}
}

// A group of refusals alone is not answered before the other nodes agree.
func TestRefusalsNeedAgreement(t *testing.T) {
	t.Parallel()
	a := &agreement{}
	s := joined(t, newLog(t), a.replicate)
	if _, err := eventstore.AppendOne(context.Background(), s, commitOf(1, 5)); !errors.As(err, new(*eventstore.ConflictError)) {
		t.Error(err)
	}
	if len(a.groups) != 1 || len(a.groups[0].Records) != 0 {
		t.Errorf("%d groups", len(a.groups))
	}
	a.refuse = func() bool { return true }
	if _, err := eventstore.AppendOne(context.Background(), s, commitOf(1, 5)); !errors.Is(err, errRefuse) {
		t.Error(err)
	}
}

// A commit that is not admitted leaves nothing. One that was recorded before is
// answered again without asking Admit, and so is one whose key is taken.
func TestAdmit(t *testing.T) {
	t.Parallel()
	var asked []domain.ID
	var refuse error
	s, err := Open(newLog(t), Options{MinFree: 1, Admit: func(_ *eventstore.Commit, newest domain.ID) error {
		asked = append(asked, newest)
		return refuse
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	first := commitOf(1, 0)
	if _, err := eventstore.AppendOne(t.Context(), s, first); err != nil {
		t.Fatal(err)
	}
	refuse = errRefuse
	other, thief := commitOf(2, 0), commitOf(3, 0)
	thief.Claim = first.Claim
	for _, c := range []struct {
		commit eventstore.Commit
		is     func(error) bool
	}{
		{first, func(err error) bool { return err == nil }},
		{other, func(err error) bool { return errors.Is(err, errRefuse) }},
		{thief, func(err error) bool {
			claimed, ok := errors.AsType[*eventstore.ClaimedError](err)
			return ok && claimed.Value.Commit == first.ID
		}},
	} {
		if _, err := eventstore.AppendOne(t.Context(), s, c.commit); !c.is(err) {
			t.Errorf("commit %s: %v", c.commit.ID, err)
		}
	}
	if want := []domain.ID{{}, first.ID}; !reflect.DeepEqual(asked, want) {
		t.Errorf("asked with the newest ids %v, want %v", asked, want)
	}
	if last, err := s.Last(t.Context()); err != nil || last != 1 {
		t.Errorf("Last = %d, %v", last, err)
	}
}

// A file that has left its LOG is an ordinary log with all its records.
func TestLeave(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := joined(t, path, new(agreement).replicate)
	for i := range 5 {
		if r := s.Append(t.Context(), commitOf(i, 0)); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	if err := errors.Join(s.Leave(), s.Close()); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r := s.Append(t.Context(), commitOf(3, 0)); r[0].Err != nil || r[0].Position != 4 {
		t.Errorf("the fourth commit again: %+v", r[0])
	}
	if r := s.Append(t.Context(), commitOf(9, 0)); r[0].Err != nil || r[0].Position != 6 {
		t.Errorf("a new commit: %+v", r[0])
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if r, err := s.Replica(); err != nil || !r.Log.IsZero() || r.Applied != 0 {
		t.Errorf("it follows a LOG: %+v, %v", r, err)
	}
	if _, ok, err := s.Group(t.Context(), 3); ok || err != nil {
		t.Errorf("it knows of a group: %v", err)
	}
}

// A group without records is compared by what it follows.
func TestCompareWithoutRecords(t *testing.T) {
	t.Parallel()
	a := &agreement{}
	s := joined(t, newLog(t), a.replicate)
	for i := range 4 { // groups 2 to 5
		if r := s.Append(t.Context(), commitOf(i, 0)); r[0].Err != nil {
			t.Fatal(r[0].Err)
		}
	}
	barrier := func(number uint64, follows int) *Group {
		g := &Group{Number: number, First: eventstore.Position(follows + 1)}
		if follows < 4 {
			g.Before = a.groups[follows].Before
			return g
		}
		_, g.Before, _ = s.End()
		return g
	}
	if first, before, err := s.End(); err != nil || first != 5 || before != barrier(6, 4).Before {
		t.Errorf("it ends before position %d: %v", first, err)
	}
	if err := errors.Join(s.Compare(barrier(6, 4)), s.Compare(barrier(9, 4)), s.Compare(&Group{Number: 7}), s.Compare(barrier(1, 0))); err != nil {
		t.Error(err)
	}
	other := barrier(6, 4)
	other.Before[0] ^= 1
	for what, g := range map[string]*Group{
		"another record before it": other, "fewer records before it": barrier(6, 3), "one in the place of records": barrier(5, 3),
	} {
		if err := s.Compare(g); !errors.As(err, new(*MismatchError)) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
