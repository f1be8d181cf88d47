package bolt

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/storetest"
)

// publisher takes every group, unless refuse says otherwise, and keeps a copy.
type publisher struct {
	mu      sync.Mutex
	batches []Batch
	refuse  func() bool
}

func (p *publisher) publish(b Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse != nil && p.refuse() {
		return errRefuse
	}
	kept := Batch{After: b.After}
	for _, r := range b.Records {
		kept.Records = append(kept.Records, bytes.Clone(r))
	}
	for _, d := range b.Details {
		kept.Details = append(kept.Details, bytes.Clone(d))
	}
	p.batches = append(p.batches, kept)
	return nil
}

var errRefuse = errors.New("the others did not agree")

// memoryOf is what staging keeps in memory of the durable records.
func memoryOf(t *testing.T, s *Store, tried []eventstore.Commit) (all []eventstore.Position) {
	t.Helper()
	for _, c := range tried {
		if c.Claim == nil {
			continue
		}
		at, err := claimed(s.claims, nameOf(c.Record.Stream.Project, c.Claim))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, at)
	}
	return all
}

func openPublishing(t *testing.T, path string, publish func(Batch) error) *Store {
	t.Helper()
	s, err := Open(path, Options{MinFree: 1, Publish: publish})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// A store whose groups are published passes the same tests as any other.
func TestPublishingStore(t *testing.T) {
	if testing.Short() {
		t.Skip("it is the same suite on the same store, with a hook that takes all: run without -short")
	}
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Log {
		u, _ := create(t).(*underTest)
		u.publish = new(publisher).publish
		return u
	})
}

// A group that is not published leaves nothing in the file or in memory: memory equals
// what the file gives when it is opened again. Its commits can be sent again.
func TestRolledBack(t *testing.T) {
	t.Parallel()
	path, random := newLog(t), rand.New(rand.NewPCG(1, 2))
	p := &publisher{refuse: func() bool { return random.IntN(2) == 0 }}
	s := openPublishing(t, path, p.publish)
	var tried []eventstore.Commit
	heads := map[eventstore.Stream]eventstore.Position{}
	for round := range 60 {
		var group []eventstore.Commit
		for i := range 1 + random.IntN(8) {
			c := commitOf(100*round+i, 0)
			if err := c.ID.SetTime(uint64(100+round/5) * spanMillis); err != nil {
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
		kept := memoryOf(t, s, tried)
		s.writing.Unlock()
		if err := s.Verify(t.Context()); err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if round%7 != 0 {
			continue
		}
		_ = s.Close()
		s = openPublishing(t, path, p.publish)
		if again := memoryOf(t, s, tried); !slices.Equal(kept, again) {
			t.Fatalf("round %d: in memory %v, in the file %v", round, kept, again)
		}
	}
	if len(p.batches) < 10 {
		t.Errorf("%d groups", len(p.batches))
	}
}

// A group of refusals alone is not answered before it is published.
func TestRefusalsArePublished(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	s := openPublishing(t, newLog(t), p.publish)
	if _, err := eventstore.AppendOne(t.Context(), s, commitOf(1, 5)); !errors.As(err, new(*eventstore.ConflictError)) {
		t.Error(err)
	}
	if len(p.batches) != 1 || len(p.batches[0].Records) != 0 {
		t.Errorf("%d groups", len(p.batches))
	}
	p.refuse = func() bool { return true }
	if _, err := eventstore.AppendOne(t.Context(), s, commitOf(1, 5)); !errors.Is(err, errRefuse) {
		t.Error(err)
	}
}

// Another file that is extended by the batches gets the same records byte for byte, also
// where it has some of them, and gives the same batches. A batch that does not follow changes
// nothing.
func TestExtend(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	from := openPublishing(t, newLog(t), p.publish)
	to, err := openDefault(newLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	var all []eventstore.Commit
	for i := range 700 {
		all = append(all, commitOf(i, 0))
		if i%3 == 0 {
			all[i].Record.Details = append(make([]byte, eventstore.SaltSize), fmt.Sprintf(`{"description":"order-%d","payload":{}}`, i)...)
		}
	}
	for _, r := range from.Append(t.Context(), all...) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	second := commitOf(1000, 1)
	second.Record.Stream, second.Claim, second.Record.Erases = all[0].Record.Stream, nil, true
	if _, err := eventstore.AppendOne(t.Context(), from, second); err != nil {
		t.Fatal(err)
	}
	if n := len(p.batches); n < 3 || len(p.batches[0].Records) > MaxGroupCommits {
		t.Fatalf("%d groups, the first has %d records", n, len(p.batches[0].Records))
	}
	var before Batch // the one before
	for n, b := range p.batches {
		wrongByte := bytes.Clone(b.Records[0])
		wrongByte[9] ^= 1
		for what, wrong := range map[string]Batch{
			"another record before it": {After: Tip{b.After.Last, [32]byte{1}}, Records: b.Records},
			"a wrong byte":             {After: b.After, Records: append([][]byte{wrongByte}, b.Records[1:]...)},
			"a record twice":           {After: b.After, Records: append(slices.Clip(b.Records), b.Records[0])},
			"other records than there": {After: before.After, Records: append([][]byte{wrongByte}, b.Records...)},
		} {
			if what == "other records than there" && n == 0 {
				continue
			}
			if _, err := to.Extend(wrong); !errors.As(err, new(*DivergedError)) {
				t.Fatalf("batch %d with %s: %v", n, what, err)
			}
		}
		gap, ok := errors.AsType[*GapError](errorOf(to.Extend(Batch{After: Tip{Last: b.End().Last}})))
		if !ok || gap.Last != b.After.Last || gap.After != b.End().Last {
			t.Fatalf("a batch behind the next one: %v", gap)
		}
		if tip, err := to.Tip(); err != nil || tip != b.After {
			t.Fatalf("batches that do not follow leave the log at %v, not %v: %v", tip, b.After, err)
		}
		joined := Batch{
			After: before.After, Records: append(slices.Clip(before.Records), b.Records...), Details: append(slices.Clip(before.Details), b.Details...),
		}
		for _, again := range []Batch{joined, b, joined, {After: b.End()}, {After: b.After}} {
			if tip, err := to.Extend(again); err != nil || tip != b.End() {
				t.Fatalf("batch %d: %v, want %v: %v", n, tip, b.End(), err)
			}
		}
		if got, err := to.BatchAfter(t.Context(), b.After.Last); err != nil || !reflect.DeepEqual(got, b) {
			t.Fatalf("batch %d comes back as %v: %v", n, got, err)
		}
		before = b
	}
	values := func(s *Store) (all [][]byte, detailed int) {
		_ = s.file.View(func(tx *bbolt.Tx) error {
			return tx.Bucket(bucketRecords).ForEach(func(_, v []byte) error {
				if all = append(all, bytes.Clone(v)); bytes.Contains(v, []byte(`{"description":"order-`)) {
					detailed++
				}
				return nil
			})
		})
		return all, detailed
	}
	had, _ := values(from)
	if has, detailed := values(to); !reflect.DeepEqual(had, has) || detailed != 700/3 {
		t.Errorf("the files have other records, or %d have details, want %d", detailed, 700/3)
	}
	if b, err := from.BatchAfter(t.Context(), 0); err != nil || b.DetailsOf(0) != nil || !bytes.Contains(b.DetailsOf(3), []byte("order-3")) {
		t.Errorf("details of a copy: %q, %q, %v", b.DetailsOf(0), b.DetailsOf(3), err)
	}
	if err := to.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if r := to.Append(t.Context(), all[3]); r[0].Err != nil || r[0].Position != 4 {
		t.Errorf("the fourth commit again: %+v", r[0])
	}
}

// A log whose own record is damaged where a batch follows it, or has it too, says so, and where: it
// is of no other history. Nor does it tell others what follows that record.
func TestExtendBehindDamage(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	from, to := openPublishing(t, newLog(t), p.publish), openPublishing(t, newLog(t), nil)
	for i := range 3 {
		_, err := eventstore.AppendOne(t.Context(), from, commitOf(i, 0))
		must(t, err)
	}
	for _, b := range p.batches[:2] {
		_, err := to.Extend(b)
		must(t, err)
	}
	spoilRecord(t, to, 2)
	if b, err := to.BatchAfter(t.Context(), 2); !errors.As(err, new(*eventstore.CorruptError)) {
		t.Errorf("it gives a batch behind the damaged record, %v: %v", b, err)
	}
	for what, b := range map[string]Batch{"the next one": p.batches[2], "one that it has": p.batches[1]} {
		diverged, ok := errors.AsType[*DivergedError](errorOf(to.Extend(b)))
		if !ok || diverged.At != 2 || !strings.Contains(diverged.Error(), "the record at position 2 is damaged") {
			t.Errorf("%s: %v", what, diverged)
		}
	}
}

// A log of before version 9 of the format, in which a key was claimed again after it had been
// forgotten, is copied as it is: the key leads to the newest record, as it does there.
func TestExtendByAKeyClaimedAgain(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	fromPath, toPath := newLog(t), newLog(t)
	from := openPublishing(t, fromPath, p.publish)
	first, again := commitOf(1, 0), commitOf(2, 0)
	again.Record.Stream.Project, again.Claim = first.Record.Stream.Project, first.Claim
	for _, c := range []eventstore.Commit{first, commitOf(3, 0), again} {
		if c.ID == again.ID {
			from.claims.Remove(nameOf(first.Record.Stream.Project, first.Claim), 1)
		}
		if _, err := eventstore.AppendOne(t.Context(), from, c); err != nil {
			t.Fatal(err)
		}
	}
	to := openPublishing(t, toPath, nil)
	for _, b := range p.batches {
		if tip, err := to.Extend(b); err != nil || tip != b.End() {
			t.Fatalf("%v, want %v: %v", tip, b.End(), err)
		}
	}
	for range 2 {
		for _, s := range []*Store{from, to} {
			if at := memoryOf(t, s, []eventstore.Commit{first}); at[0] != 3 {
				t.Errorf("the key leads to position %d", at[0])
			}
			if err := s.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			_ = s.Close()
		}
		from, to = openPublishing(t, fromPath, nil), openPublishing(t, toPath, nil)
	}
}

func errorOf(_ Tip, err error) error { return err }

// Close waits for a batch that is being added, here one that fills the memtable of claims, and one that
// comes later finds the log closed, which is no fatal error.
func TestExtendWhileClosing(t *testing.T) {
	t.Parallel()
	p := &publisher{}
	from := openPublishing(t, newLog(t), p.publish)
	for i := range 2 {
		if _, err := eventstore.AppendOne(t.Context(), from, commitOf(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	to, err := Open(newLog(t), Options{MinFree: 1, SyncDelay: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; !to.claims.Full(0); i++ {
		to.claims.Add(claims.NameOf("filler", [32]byte{byte(i), byte(i >> 8)}), 1)
	}
	extended := make(chan error, 1)
	go func() { extended <- errorOf(to.Extend(p.batches[0])) }()
	for len(extended) == 0 && to.writing.TryLock() {
		to.writing.Unlock()
		time.Sleep(time.Millisecond)
	}
	if err := to.Close(); err != nil {
		t.Error(err)
	}
	if err := <-extended; err != nil {
		t.Errorf("a batch that is being added when the log is closed: %v", err)
	}
	if err := errorOf(to.Extend(p.batches[1])); !errors.Is(err, eventstore.ErrClosed) || to.Err() != nil {
		t.Errorf("a batch after the log was closed: %v; fatal: %v", err, to.Err())
	}
}
