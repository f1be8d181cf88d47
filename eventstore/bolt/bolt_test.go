package bolt

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bbolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/storetest"
)

func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", strconv.Itoa(short(40, 100))) // before flags are parsed
	goleak.VerifyTestMain(m)
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, create)
}

// The layout of a record is fixed: files are kept for years.
func TestRecordFormat(t *testing.T) {
	t.Parallel()
	id := domain.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	payment := eventstore.PaymentStream("prj_"+domain.ID{7, 15: 1}.String(), domain.ID{7, 15: 2})
	line := `{"id":"01081G81860W40J2GB1G6GW3RG","type":"payment.paid","version":1,"project":"` + payment.Project +
		`","kind":"payment","stream":"` + payment.ID + `","sequence":3,"at":"2005-02-11T20:02:37.446Z","data":{"signal":{"route":"sandbox"},"x":"2005-02-11TY"}}`
	const ids = " 07000000000000000000000000000001 07000000000000000000000000000002"
	claim := &eventstore.Claim{Key: domain.Digest{0xaa}, Fingerprint: domain.Digest{0xbb}}
	for name, test := range map[string]struct {
		stream eventstore.Stream
		claim  *eventstore.Claim
		body   string
		want   string
	}{
		"plain": {
			eventstore.Stream{Project: "prq", Kind: "kind of", ID: "id"},
			nil, "{}",
			"7b5e9a86 03 00 0102030405060708090a0b0c0d0e0f10 03 02 03707271 076b696e64206f66 026964 7b7d",
		},
		"claim": {
			eventstore.Stream{Project: "prq", Kind: "kind of", ID: "id"},
			claim, "{}",
			"64822fc7 03 01 0102030405060708090a0b0c0d0e0f10 03 02" +
				" aa" + strings.Repeat("00", 31) + " bb" + strings.Repeat("00", 31) + " 03707271 076b696e64206f66 026964 7b7d",
		},
		"payment": {payment, nil, "{\n}", "95ed3e77 03 04 0102030405060708090a0b0c0d0e0f10 03 02" + ids + " 7b0a7d"},
		"compressed": {
			payment, nil, line,
			"643d4f23 03 06 0102030405060708090a0b0c0d0e0f10 03 02" + ids +
				" a7c3e6d8 8d02807b226964223a2230313038314738313836305734304a324742314736475733524746e7013e6f0346e401043730560100003176e4015e3700003232e401796f5030352d30322d31315432303a30323a33372e3434362ee401666f030c7d2c22782e440014315459227d7d",
		},
	} {
		want := eventstore.Stored{
			Position: 9, Stream: test.stream, Sequence: 3, Prev: 7, Commit: id, Claim: test.claim, Body: []byte(test.body),
		}
		want.At = domain.IDTime(want.Commit).Time()
		b := appendRecord(nil, &want)
		if got := hex.EncodeToString(b); got != strings.ReplaceAll(test.want, " ", "") {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
		got, err := decodeRecord(9, b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" || string(got.Body) != test.body {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		if _, err := decodeRecord(10, b); err == nil {
			t.Errorf("%s: it is accepted at another position", name)
		}
	}
}

// A record with a right checksum and wrong lengths is refused as well; any
// other is, written again, the same record.
func FuzzRecord(f *testing.F) {
	r := eventstore.Stored{Position: 1, Stream: eventstore.ProjectStream("prj_1"), Sequence: 1, Commit: domain.ID{1}, Body: []byte("{}")}
	f.Add(appendRecord(nil, &r)[4:])
	r.Claim = &eventstore.Claim{}
	f.Add(appendRecord(nil, &r)[4:])
	r.Stream = eventstore.PaymentStream(projectPrefix+domain.ID{1}.String(), domain.ID{2})
	r.Body = []byte(`{"id":"` + r.Commit.String() + `","type":"payment.paid"}`)
	f.Add(appendRecord(nil, &r)[4:])
	f.Fuzz(func(t *testing.T, b []byte) {
		sum := checksum(1, b)
		b = append([]byte{byte(sum >> 24), byte(sum >> 16), byte(sum >> 8), byte(sum)}, b...)
		r, err := decodeRecord(1, b)
		if err != nil {
			return
		}
		same := r
		again, err := decodeRecord(1, appendRecord(nil, &same))
		if d := cmp.Diff(r, again); err != nil || d != "" {
			t.Errorf("%x: %v, (-read +written and read again):\n%s", b, err, d)
		}
	})
}

// FuzzBody: whatever a body is, it is the same when it is read.
func FuzzBody(f *testing.F) {
	f.Add([]byte(dictionaryText))
	f.Add([]byte("\x00"))
	f.Add(bytes.Repeat([]byte(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"`), 1500))
	f.Fuzz(func(t *testing.T, body []byte) {
		if len(body) == 0 || len(body) > eventstore.MaxBody {
			return
		}
		want := eventstore.Stored{
			Position: 1, Stream: eventstore.PaymentStream(projectPrefix+domain.ID{1}.String(), domain.ID{2}), Sequence: 1,
			Commit: domain.ID{3}, Body: body,
		}
		want.At = domain.IDTime(want.Commit).Time()
		got, err := decodeRecord(1, appendRecord(nil, &want))
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%v, (-want +got):\n%s", err, d)
		}
	})
}

// TestCompressedBodies: a damaged body is an error, whatever the damage is.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	room := func(n int) []byte { return make([]byte, 0, n) }
	body := []byte(dictionaryText[500:1200] + "!")
	good, shorter := compress(nil, body)
	if !shorter {
		t.Fatal("the body is not compressed")
	}
	if got, err := decompress(good, room); err != nil || !bytes.Equal(got, body) {
		t.Fatalf("%q, %v", got, err)
	}
	for i := range good {
		if _, err := decompress(good[:i], room); err == nil {
			t.Errorf("%d bytes of it are accepted", i)
		}
		for bit := range 8 {
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			if got, err := decompress(bad, room); err == nil && !bytes.Equal(got, body) {
				t.Errorf("bit %d of byte %d: %q", bit, i, got)
			}
		}
	}
	huge := binary.AppendUvarint([]byte{0, 0, 0, 0}, eventstore.MaxBody+1)
	if _, err := decompress(huge, room); err == nil {
		t.Error("a body beyond the bound is accepted")
	}
	if sum := sha256.Sum256([]byte(dictionaryText)); hex.EncodeToString(sum[:4]) != "82b59fe5" {
		t.Errorf("the dictionary has changed (%x): bodies that were written with the old one could not be read", sum[:4])
	}
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

// Reading is the same whether records are in memory, in the file, or streams
// reach from one into the other.
func TestBeyondTheRecordsInMemory(t *testing.T) {
	t.Parallel()
	const n = tailRecords + 500
	path := newLog(t)
	s := reopened(t, path)
	first := appendAll(t, s, n, func(int) eventstore.Position { return 0 })
	if s.tail.held != tailRecords {
		t.Errorf("%d records in memory", s.tail.held)
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

// Writing stops before the disk is full, reading does not, and writing goes on
// once there is room. The file system is asked once a second at most.
func TestFreeSpace(t *testing.T) {
	t.Parallel()
	s := reopened(t, newLog(t))
	now, free, asked := time.Unix(1795169730, 0), uint64(100), 0
	s.space = &Space{min: 100, now: func() time.Time { return now }, free: func(string) (uint64, error) {
		asked++
		return free, nil
	}}
	do := func(i int, want error) {
		t.Helper()
		if _, err := eventstore.AppendOne(t.Context(), s, commitOf(i, 0)); !errors.Is(err, want) {
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
	if r, err := s.stream(t.Context(), commitOf(1, 0).Record.Stream, 0); len(r) != 1 || err != nil {
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
			if err := c.ID.SetTime(uint64(100+period) * spanMillis); err != nil {
				t.Fatal(err)
			}
			_, err := eventstore.AppendOne(t.Context(), s, c)
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
		if err := c.ID.SetTime(period * spanMillis); err != nil {
			t.Fatal(err)
		}
		if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	if n := len(s.staging.spans); n != spansKept {
		t.Errorf("%d spans of claims are left", n)
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
	_, err := eventstore.AppendOne(t.Context(), s, commitOf(0, 0))
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
		return appendRecord(nil, &r)
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
		"a span too few": func(tx *bbolt.Tx, _ eventstore.Stored) error { return tx.Bucket(bucketMeta).Delete(keySpans) },
		"spans of no sense": func(tx *bbolt.Tx, _ eventstore.Stored) error {
			return tx.Bucket(bucketMeta).Put(keySpans, make([]byte, spanSize))
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
		index = s.claims.keys
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
