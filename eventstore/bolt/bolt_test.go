package bolt

import (
	"errors"
	"flag"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/bolt/record"
	"payledger/eventstore/storetest"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(rounds(40, 100))) // before flags are parsed
	healthtest.Overlap()
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, create)
}

func appendAll(t *testing.T, s *Store, n int, expect func(int) eventstore.Position) []eventstore.Stored {
	t.Helper()
	stored := make([]eventstore.Stored, n)
	var all sync.WaitGroup
	for w := range 64 {
		all.Go(func() {
			for i := w; i < n; i += 64 {
				var err error
				if stored[i], err = eventstore.AppendOne(t.Context(), s, commitOf(i, expect(i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return stored
}

// Reads return the same whether the records are in memory, in the file, or partly in
// both.
func TestBeyondTheRecordsInMemory(t *testing.T) {
	inOneGoroutine(t)
	t.Parallel()
	const n = tailRecords + 500
	path := newLog(t)
	s := reopened(t, path)
	first := appendAll(t, s, n, func(int) eventstore.Position { return 0 })
	for at, want := range map[eventstore.Position]bool{n: true, n - tailRecords + 1: true, n - tailRecords: false} {
		if _, ok := s.tail.record(at); ok != want {
			t.Errorf("position %d of %d is in memory: %v", at, n, ok)
		}
	}
	oldest := slices.IndexFunc(first, func(r eventstore.Stored) bool { return r.Position == 1 })
	c := commitOf(oldest, 1)
	c.Record.Stream = first[oldest].Stream
	second, err := eventstore.AppendOne(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.Clone(first), second)
	slices.SortFunc(all, func(a, b eventstore.Stored) int { return int(a.Position) - int(b.Position) })
	for range 2 {
		for after := eventstore.Position(0); after <= n+1; after += 311 {
			i := after
			for r, err := range s.Scan(t.Context(), after, eventstore.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(all[i], r) { // cmp is slow
					t.Fatalf("position %d (-want +got):\n%s", i+1, cmp.Diff(all[i], r))
				}
				i++
			}
			if i != n+1 {
				t.Fatalf("from %d on, the scan ends after %d", after, i)
			}
		}
		for i, r := range first {
			want := []eventstore.Stored{r}
			if i == oldest {
				want = append(want, second)
			}
			got, err := s.stream(t.Context(), r.Stream, 0)
			slices.Reverse(got)
			if err != nil || !reflect.DeepEqual(want, got) {
				t.Fatalf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Error(err)
		}
		_ = s.Close()
		s = reopened(t, path)
	}
}

// Writing stops before the disk is full and resumes once there is room. Reading goes
// on.
func TestFreeSpace(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	do := func(i int, want error) {
		t.Helper()
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(i, 0)); !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	do(0, nil)
	s.options.MinFree = math.MaxUint64
	do(1, eventstore.ErrFull)
	if p, err := s.Last(t.Context()); p != 1 || err != nil {
		t.Errorf("Last = %d, %v", p, err)
	}
	if r, err := s.stream(t.Context(), commitOf(0, 0).Record.Stream, 0); len(r) != 1 || err != nil {
		t.Errorf("Load: %v, %v", r, err)
	}
	s.options.MinFree = 1
	do(2, nil)
	if err := s.Err(); err != nil {
		t.Errorf("a full disk is not fatal: %v", err)
	}
	s.options.MinFree = math.MaxUint64
	if err := s.Refuses(); !errors.Is(err, eventstore.ErrFull) {
		t.Errorf("Refuses: %v", err)
	}
	s.path = filepath.Join(path, "none", "x") // what the file system cannot tell stops nothing
	if s.isLow() {
		t.Error("the space is low, and nothing is known of it")
	}
}

// spanMillis is a step of a test's clock: 15 days.
const spanMillis = 15 * 24 * 60 * 60 * 1000

// A key is remembered whatever the clock does: for years, and when it jumps ahead or back.
func TestClaimsDoNotAge(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	for i, period := range []uint64{100, 101, 102, 103, 104, 500, 111, 500, 5000, 100} {
		for n, again := range []bool{i > 0, false} {
			c := commitOf(10*i+n, 0)
			c.Claim.Key = domain.Digest{byte(n * (i + 1))}
			if err := c.ID.SetTime(period * spanMillis); err != nil {
				t.Fatal(err)
			}
			_, err := eventstore.AppendOne(t.Context(), s, c)
			var claimed *eventstore.ClaimedError
			if again != errors.As(err, &claimed) || (err != nil && claimed == nil) {
				t.Errorf("key %d in period %d: %v", n, period, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Fatalf("period %d: %v", period, err)
		}
		if i%3 == 2 {
			_ = s.Close()
			s = reopened(t, path)
		}
	}
	// A log of before may have a key twice, because it was forgotten.
	c := commitOf(1000, 0)
	c.Claim.Key = domain.Digest{}
	s.claims.Remove(nameOf(c.Record.Stream.Project, c.Claim), 1)
	if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
		t.Fatal(err)
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
}

// A failed commit closes Fatal, and Err returns the reason.
func TestFatal(t *testing.T) {
	t.Parallel()
	u, _ := create(t).(*underTest)
	s, _ := u.Open().(*Store)
	t.Cleanup(func() { _ = s.Close() })
	select {
	case <-s.Fatal():
		t.Error("Fatal is closed from the start")
	default:
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
	u.device.arm(fault{step: stepMeta})
	_, err := eventstore.AppendOne(t.Context(), s, commitOf(0, 0))
	<-s.Fatal()
	var fatal *eventstore.FatalError
	if !errors.As(err, &fatal) || !errors.Is(err, errInjected) || !errors.Is(s.Err(), errInjected) {
		t.Errorf("Append: %v, Err: %v", err, s.Err())
	}
}

// Verify finds each difference between the derived parts and the records, and
// records that do not follow from each other.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	other := func(r eventstore.Stored, change func(*eventstore.Stored)) []byte {
		change(&r)
		return record.Append(nil, &r)
	}
	records := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket(bucketRecords) }
	heads := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket(bucketHeads) }
	var index *claims.Index
	for what, spoil := range map[string]func(tx *bbolt.Tx, r eventstore.Stored) error{
		"a missing record": func(tx *bbolt.Tx, _ eventstore.Stored) error { return records(tx).Delete(positionKey(2)) },
		"no last record":   func(tx *bbolt.Tx, _ eventstore.Stored) error { return records(tx).Delete(positionKey(3)) },
		"a missing head":   func(tx *bbolt.Tx, r eventstore.Stored) error { return heads(tx).Delete(headKey(r.Stream)) },
		"an invented head": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return heads(tx).Put([]byte("x"), appendHead(nil, []byte("x"), &r))
		},
		"a damaged head": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return heads(tx).Put(headKey(r.Stream), make([]byte, headSize))
		},
		"a head behind": func(tx *bbolt.Tx, r eventstore.Stored) error {
			r.Sequence--
			return heads(tx).Put(headKey(r.Stream), appendHead(nil, headKey(r.Stream), &r))
		},
		"a missing claim": func(_ *bbolt.Tx, r eventstore.Stored) error {
			index.Add(nameOf(r.Stream.Project, r.Claim), 0)
			return nil
		},
		"a misled claim": func(_ *bbolt.Tx, r eventstore.Stored) error {
			index.Add(nameOf(r.Stream.Project, r.Claim), 1)
			return nil
		},
		"no newest id": func(tx *bbolt.Tx, _ eventstore.Stored) error {
			return tx.Bucket(bucketMeta).Put(keyNewest, make([]byte, 16))
		},
		"a wrong sequence": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return tx.Bucket(bucketRecords).Put(positionKey(3), other(r, func(r *eventstore.Stored) { r.Sequence = 3 }))
		},
		"a wrong stream": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return tx.Bucket(bucketRecords).Put(positionKey(3), other(r, func(r *eventstore.Stored) { r.Stream.ID = "x" }))
		},
		"a broken chain": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return tx.Bucket(bucketRecords).Put(positionKey(3), other(r, func(r *eventstore.Stored) { r.Prev, r.Sequence = 0, 1 }))
		},
		"a circle": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return tx.Bucket(bucketRecords).Put(positionKey(3), other(r, func(r *eventstore.Stored) { r.Prev = 3 }))
		},
	} {
		s := reopened(t, newLog(t))
		index = s.claims
		var last eventstore.Stored
		for i, expect := range []eventstore.Position{0, 0, 2} {
			c := commitOf(i, expect)
			if expect != 0 {
				c.Record.Stream = last.Stream
			}
			var err error
			if last, err = eventstore.AppendOne(t.Context(), s, c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.file.Update(func(tx *bbolt.Tx) error { return spoil(tx, last) }); err != nil {
			t.Fatal(err)
		}
		var corrupt *eventstore.CorruptError
		for _, atHand := range []int{1, rowCache} {
			for _, bodiless := range []bool{false, true} {
				if err := s.verify(t.Context(), atHand, bodiless); !errors.As(err, &corrupt) {
					t.Errorf("%s, %d records at hand: %v", what, atHand, err)
				}
			}
		}
	}
}
