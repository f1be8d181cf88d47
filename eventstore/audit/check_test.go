package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClean is the control for all other tests: a log with every event type has no
// findings.
func TestClean(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	r := w.check(records, w.checkpoint("old", records[:5]), w.checkpoint("empty", nil), w.checkpoint("new", records))
	if len(r.Findings) > 0 || r.Integrity.Outcome != OK || r.Completeness.Outcome != OK || !r.OK() {
		t.Errorf("%+v", r)
	}
	for _, c := range r.Checkpoints {
		if c.Outcome != OK {
			t.Errorf("checkpoint %+v", c)
		}
	}
	if r.Events != uint64(len(records)) || r.Payments != 4 || r.Projects != 1 || r.Root == nil {
		t.Errorf("%+v", r)
	}
}

func TestCheckpoints(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	n := len(records)
	kept, old := w.checkpoint("kept", records), w.checkpoint("old", records[:6])

	t.Run("truncated", func(t *testing.T) {
		t.Parallel()
		r := w.check(records[:n-2], old, kept)
		if r.Completeness.Outcome != Failed || r.Integrity.Outcome != OK || r.FirstBad != eventstore.Position(n-1) ||
			!slices.Equal(kinds(r), []Kind{Truncated}) {
			t.Errorf("%+v", r)
		}
		r = w.check(records[:n-2], kept)
		if r.Integrity.Outcome != OK || !strings.Contains(r.Integrity.Reason, "no checkpoint could be compared") {
			t.Errorf("%+v", r.Integrity)
		}
	})
	t.Run("truncated without checkpoint", func(t *testing.T) {
		t.Parallel()
		r := w.check(records[:n-2])
		if r.Completeness.Outcome != NotChecked || !r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("beside the log", func(t *testing.T) {
		t.Parallel()
		c := old
		c.Beside = true
		r := w.check(records, c)
		if r.Completeness.Outcome != OK || !strings.Contains(r.Completeness.Reason, "kept elsewhere") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a fork", func(t *testing.T) {
		t.Parallel()
		fork := slices.Clone(records)
		i := w.at(fork, domain.TypePaymentCreated, 3)
		fork[i].Body = bytes.Replace(fork[i].Body, []byte(`"render":1`), []byte(`"render":2`), 1)
		r := w.check(fork, old, kept)
		if len(r.Findings) != 1 || r.Findings[0].Kind != WrongRoot || r.Findings[0].Position != 7 || r.Findings[0].Through != eventstore.Position(n) {
			t.Errorf("%+v", r.Findings)
		}
	})
	t.Run("an older one from a fork", func(t *testing.T) {
		t.Parallel()
		other := newWorld(t).lives()
		other.signer = w.signer
		r := w.check(records, other.checkpoint("fork", other.records()[:6]), kept)
		if len(r.Findings) != 1 || r.Findings[0].Kind != WrongRoot || r.Findings[0].Through != 6 || r.Checkpoints[1].Outcome != OK {
			t.Errorf("%+v", r)
		}
	})
	t.Run("altered", func(t *testing.T) {
		t.Parallel()
		c := kept
		c.Signed = strings.Replace(c.Signed, "\n2", "\n1", 1)
		r := w.check(records, c)
		if !slices.Equal(kinds(r), []Kind{BadCheckpoint}) || r.OK() {
			t.Errorf("%+v", r)
		}
	})
	t.Run("of another log", func(t *testing.T) {
		t.Parallel()
		other := newWorld(t).lives()
		r := w.check(records, other.checkpoint("other", other.records()))
		if !slices.Equal(kinds(r), []Kind{BadCheckpoint}) || r.OK() {
			t.Errorf("%+v", r)
		}
	})
}

// TestDamage: the check continues after unreadable records, and reports no findings
// for their neighbours.
func TestDamage(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	store := w.ledger.Store.(*memory.Store) //nolint:forcetypeassert // newWorld's
	records := w.records()
	paid := w.at(records, domain.TypePaymentPaid, 0) + 1
	store.Damage(3)
	store.Damage(eventstore.Position(paid))
	r, err := Check(t.Context(), Of(t.Context(), store), Options{
		Codec: w.ledger.Codec, Structure: store.Verify, Against: Against{Checkpoints: []Checkpoint{w.checkpoint("kept", records)}, Verifiers: w.verifiers()},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Findings) != 2 || r.Findings[0].Position != 3 || r.Findings[1].Position != eventstore.Position(paid) ||
		!slices.Equal(kinds(r), []Kind{DamagedRecord}) {
		t.Errorf("%v", r.Findings)
	}
	if r.Completeness.Outcome != NotChecked || r.Checkpoints[0].Outcome != NotChecked || r.Root != nil {
		t.Errorf("%+v", r)
	}
	store.Damage(3)
	store.Damage(eventstore.Position(paid))
	r, err = Check(t.Context(), Of(t.Context(), store), Options{Codec: w.ledger.Codec, Structure: store.Verify})
	if err != nil || !r.OK() || len(r.Findings) > 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestClaimWindow: a key can be claimed again after 30 days.
func TestClaimWindow(t *testing.T) {
	t.Parallel()
	for days, want := range map[int]bool{0: false, 29: false, 30: true, 46: true, 400: true} {
		c := newClaims()
		key := domain.Digest{1}
		now := time.UnixMilli(1_795_169_730_123)
		ids := domain.NewIDs(func() time.Time { return now }, bytes.NewReader(make([]byte, 1000)), domain.ID{})
		stored := func(p eventstore.Position, project string) *eventstore.Stored {
			return &eventstore.Stored{Position: p, Stream: eventstore.Stream{Project: project}, Commit: ids.Next()}
		}
		if c.add(stored(1, "a"), key) != 0 || c.add(stored(2, "b"), key) != 0 {
			t.Error("keys of different projects are different")
		}
		now = now.AddDate(0, 0, days)
		if got := c.add(stored(3, "a"), key) == 0; got != want {
			t.Errorf("after %d days: allowed %t, want %t", days, got, want)
		}
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	records := w.records()
	var lines []string
	for _, r := range records {
		lines = append(lines, fmt.Sprintf(`{"position":%d,"event":%s}`+"\n", r.Position, r.Body))
	}
	check := func(lines ...string) *Report {
		r, err := Check(t.Context(), Lines(strings.NewReader(strings.Join(lines, ""))), Options{
			Codec: w.ledger.Codec, Bare: true, Against: Against{Checkpoints: []Checkpoint{w.checkpoint("kept", records)}, Verifiers: w.verifiers()},
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := check(lines...); len(r.Findings) > 0 || r.Completeness.Outcome != OK || r.Events != uint64(len(lines)) {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]struct {
		lines []string
		want  Kind
		at    eventstore.Position
	}{
		"cut off":           {append(slices.Clone(lines[:7]), lines[7][:40]), DamagedRecord, 8},
		"cut between lines": {lines[:7], Truncated, 8},
		"a line removed":    {slices.Concat(lines[:7], lines[8:]), Gap, 8},
		"a line too long":   {slices.Concat(lines[:7], []string{strings.Repeat("x", 3*MaxLine) + "\n"}, lines[8:]), DamagedRecord, 8},
		"a member added":    {slices.Concat(lines[:7], []string{strings.Replace(lines[7], "{", `{"x":1,`, 1)}, lines[8:]), DamagedRecord, 8},
		"a blank added":     {slices.Concat(lines[:7], []string{strings.Replace(lines[7], `"data":`, `"data": `, 1)}, lines[8:]), WrongRoot, 1},
	} {
		if r := check(c.lines...); r.OK() || !slices.Contains(kinds(r), c.want) || r.FirstBad != c.at {
			t.Errorf("%s: want %s at %d, got %v", name, c.want, c.at, r.Findings)
		}
	}
}

// TestErrors: an error that is no fault of the log is not a finding.
func TestErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t).lives()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Check(ctx, Of(ctx, w.ledger.Store), Options{Codec: w.ledger.Codec}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	broken := errors.New("the disk is gone")
	src := func(eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		return func(yield func(eventstore.Stored, error) bool) { yield(eventstore.Stored{}, broken) }
	}
	if _, err := Check(t.Context(), src, Options{Codec: w.ledger.Codec}); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
	if r := w.check(nil); !r.OK() || r.Events != 0 {
		t.Errorf("%+v", r)
	}
}

// TestIDs compares with a map, for ids in order, nearly in order and very old.
func TestIDs(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	id := func(n int) (id domain.ID) {
		binary.BigEndian.PutUint64(id[8:], uint64(n)+1)
		return id
	}
	for name, next := range map[string]func(i int) int{
		"in order":     func(i int) int { return i },
		"nearly":       func(i int) int { return i + random.IntN(600) },
		"from far off": func(i int) int { return random.IntN(i + 1) },
		"falling":      func(i int) int { return 20_000 - i },
	} {
		s, were := newIDs(), make(map[int]bool)
		for i := range 10_000 {
			n := next(i)
			if got := s.add(id(n)) != ""; got != were[n] {
				t.Fatalf("%s: id %d, the %d-th: found %t, want %t", name, n, i, got, were[n])
			}
			were[n] = true
		}
	}
}
