package bolt

import (
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, create)
}

// The layout of a record is fixed: files are kept for years.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claim *eventstore.Claim
		want  string
	}{
		"plain": {nil, "0b0d7d7f 01 00 0102030405060708090a0b0c0d0e0f10 0000000000000003 0000000000000007" +
			" 03707271 076b696e64206f66 026964 7b7d"},
		"claim": {
			&eventstore.Claim{Key: domain.Digest{0xaa}, Fingerprint: domain.Digest{0xbb}},
			"18165f54 01 01 0102030405060708090a0b0c0d0e0f10 0000000000000003 0000000000000007" +
				" aa" + strings.Repeat("00", 31) + " bb" + strings.Repeat("00", 31) + " 03707271 076b696e64206f66 026964 7b7d",
		},
	} {
		want := eventstore.Stored{
			Position: 9, Stream: eventstore.Stream{Project: "prq", Kind: "kind of", ID: "id"}, Sequence: 3, Prev: 7,
			Commit: domain.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, Claim: test.claim, Body: []byte("{}"),
		}
		want.At = domain.IDTime(want.Commit).Time()
		b := encodeRecord(&want)
		if got := hex.EncodeToString(b); got != strings.ReplaceAll(test.want, " ", "") {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		got, err := decodeRecord(9, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if _, err := decodeRecord(10, b); err == nil {
			t.Errorf("%s: it is accepted at another position", name)
		}
	}
}

// A record with a right checksum and wrong lengths is refused as well.
func FuzzRecord(f *testing.F) {
	r := eventstore.Stored{Position: 1, Stream: eventstore.ProjectStream("prj_1"), Sequence: 1, Commit: domain.ID{1}, Body: []byte("{}")}
	f.Add(encodeRecord(&r)[4:])
	r.Claim = &eventstore.Claim{}
	f.Add(encodeRecord(&r)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := checksum(1, b)
		b = append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, b...)
		r, err := decodeRecord(1, b)
		if err != nil {
			return
		}
		if again := encodeRecord(&r); string(again) != string(b) {
			t.Errorf("%x is read and written as %x", b, again)
		}
	})
}

func appendAll(t *testing.T, s *Store, n int, expect func(int) eventstore.Position) []eventstore.Stored {
	t.Helper()
	stored := make([]eventstore.Stored, n)
	var all sync.WaitGroup
	for w := range 64 {
		all.Go(func() {
			for i := w; i < n; i += 64 {
				var err error
				if stored[i], err = s.Append(t.Context(), commitOf(i, expect(i))); err != nil {
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

// Reading is the same whether records are in memory, in the file, or streams
// reach from one into the other.
func TestBeyondTheRecordsInMemory(t *testing.T) {
	t.Parallel()
	const n = tailRecords + 500
	path := newLog(t)
	s := reopened(t, path)
	first := appendAll(t, s, n, func(int) eventstore.Position { return 0 })
	if len(s.tail.records) != tailRecords || len(s.tail.heads) != tailRecords {
		t.Errorf("%d records and %d heads in memory", len(s.tail.records), len(s.tail.heads))
	}
	oldest := slices.IndexFunc(first, func(r eventstore.Stored) bool { return r.Position == 1 })
	c := commitOf(oldest, 1)
	c.Record.Stream = first[oldest].Stream
	second, err := s.Append(t.Context(), c)
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
			got, err := s.stream(t.Context(), r.Stream)
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

// Writing stops before the disk is full, reading does not, and writing goes on
// once there is room. The file system is asked once a second at most.
func TestFreeSpace(t *testing.T) {
	t.Parallel()
	s := reopened(t, newLog(t))
	now, free, asked := time.Unix(1795169730, 0), uint64(100), 0
	s.space = &space{min: 100, now: func() time.Time { return now }, free: func(string) (uint64, error) {
		asked++
		return free, nil
	}}
	do := func(i int, want error) {
		t.Helper()
		if _, err := s.Append(t.Context(), commitOf(i, 0)); !errors.Is(err, want) {
			t.Errorf("commit %d: %v, want %v", i, err, want)
		}
	}
	do(0, nil)
	free = 99
	do(1, nil)
	now = now.Add(time.Second)
	do(2, eventstore.ErrFull)
	do(3, eventstore.ErrFull)
	if p, err := s.Last(t.Context()); p != 2 || err != nil {
		t.Errorf("Last = %d, %v", p, err)
	}
	if r, err := s.stream(t.Context(), commitOf(1, 0).Record.Stream); len(r) != 1 || err != nil {
		t.Errorf("Load: %v, %v", r, err)
	}
	free = 100
	do(4, eventstore.ErrFull)
	now = now.Add(time.Second)
	do(5, nil)
	if asked != 3 {
		t.Errorf("the file system was asked %d times, want 3", asked)
	}
	now = now.Add(-time.Hour) // a clock that is set back does not stop the looking
	free = 0
	do(6, eventstore.ErrFull)
	if err := s.Err(); err != nil {
		t.Errorf("a full disk is not fatal: %v", err)
	}
}

func TestFreeSpaceOfTheSystem(t *testing.T) {
	t.Parallel()
	free, err := freeSpace(t.TempDir())
	if err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
}

// The index of idempotency keys keeps three buckets and forgets with the
// oldest of them.
func TestClaimsAge(t *testing.T) {
	t.Parallel()
	path := newLog(t)
	s := reopened(t, path)
	for period := range 12 {
		// The key that is new in each period comes first and opens it.
		for _, i := range []int{1, 0, 2} {
			c := commitOf(10*period+i, 0)
			c.Claim.Key = domain.Digest{byte(i + 1)}
			if i == 1 {
				c.Claim.Key[1] = byte(period)
			}
			if err := c.ID.SetTime(uint64(100+period) * epochMillis); err != nil {
				t.Fatal(err)
			}
			_, err := s.Append(t.Context(), c)
			var claimed *eventstore.ClaimedError
			if again := i != 1 && period%3 != 0; again != errors.As(err, &claimed) || (err != nil && claimed == nil) {
				t.Errorf("key %d in period %d: %v", i, period, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Fatalf("period %d: %v", period, err)
		}
		if period%5 == 4 {
			_ = s.Close()
			s = reopened(t, path)
		}
	}
	// Long silence, or a clock that jumps ahead, forgets no more than one; ids
	// from before it count as new ones.
	for i, period := range []uint64{500, 111, 500} {
		c := commitOf(1000+i, 0)
		if err := c.ID.SetTime(period * epochMillis); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	names := 0
	if err := s.db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, _ *bbolt.Bucket) error {
			if strings.HasPrefix(string(name), string(prefixClaims)) {
				names++
			}
			return nil
		})
	}); err != nil || names != epochs {
		t.Errorf("%d buckets of claims are left, %v", names, err)
	}
}

// A failed commit closes Fatal, and Err tells why.
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
	_, err := s.Append(t.Context(), commitOf(0, 0))
	<-s.Fatal()
	var fatal *eventstore.FatalError
	if !errors.As(err, &fatal) || !errors.Is(err, errInjected) || !errors.Is(s.Err(), errInjected) {
		t.Errorf("Append: %v, Err: %v", err, s.Err())
	}
}

// Verify finds every way in which the derived parts can differ from the
// records, and records that do not follow from each other.
func TestVerifyFinds(t *testing.T) {
	t.Parallel()
	other := func(r eventstore.Stored, change func(*eventstore.Stored)) []byte {
		change(&r)
		return encodeRecord(&r)
	}
	records := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket(bucketRecords) }
	heads := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket(bucketHeads) }
	claims := func(tx *bbolt.Tx, r eventstore.Stored) (*bbolt.Bucket, []byte) {
		return tx.Bucket(claimsBucket(epochOf(r.Commit))), claimKey(r.Stream.Project, r.Claim.Key)
	}
	for what, spoil := range map[string]func(tx *bbolt.Tx, r eventstore.Stored) error{
		"a missing record": func(tx *bbolt.Tx, _ eventstore.Stored) error { return records(tx).Delete(positionKey(2)) },
		"no last record":   func(tx *bbolt.Tx, _ eventstore.Stored) error { return records(tx).Delete(positionKey(3)) },
		"a missing head":   func(tx *bbolt.Tx, r eventstore.Stored) error { return heads(tx).Delete(headKey(r.Stream)) },
		"an invented head": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return heads(tx).Put([]byte("x"), headValue([]byte("x"), r))
		},
		"a damaged head": func(tx *bbolt.Tx, r eventstore.Stored) error {
			return heads(tx).Put(headKey(r.Stream), make([]byte, headSize))
		},
		"a head behind": func(tx *bbolt.Tx, r eventstore.Stored) error {
			r.Sequence--
			return heads(tx).Put(headKey(r.Stream), headValue(headKey(r.Stream), r))
		},
		"a missing claim": func(tx *bbolt.Tx, r eventstore.Stored) error {
			b, key := claims(tx, r)
			return b.Delete(key)
		},
		"a misled claim": func(tx *bbolt.Tx, r eventstore.Stored) error {
			b, key := claims(tx, r)
			return b.Put(key, positionKey(1))
		},
		"an invented claim": func(tx *bbolt.Tx, r eventstore.Stored) error {
			b, _ := claims(tx, r)
			return b.Put([]byte("x"), positionKey(1))
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
		var last eventstore.Stored
		for i, expect := range []eventstore.Position{0, 0, 2} {
			c := commitOf(i, expect)
			if expect != 0 {
				c.Record.Stream = last.Stream
			}
			var err error
			if last, err = s.Append(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Update(func(tx *bbolt.Tx) error { return spoil(tx, last) }); err != nil {
			t.Fatal(err)
		}
		var corrupt *eventstore.CorruptError
		if err := s.Verify(t.Context()); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
