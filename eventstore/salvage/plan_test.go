package salvage_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/salvage"
	"payledger/eventstore/translog"
)

// world is a log of projects, each with some events, and its file.
type world struct {
	log     domain.ID
	records []eventstore.Stored
	file    []byte
}

func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{log: domain.ID{9, 1}}
	codec := eventstore.NewCodec()
	sequences := make(map[string]eventstore.Stored)
	for i := range n {
		id := domain.ID{1, 160, 112, 116, byte(i >> 8), byte(i), 1}
		s := eventstore.ProjectStream(fmt.Sprintf("prj_%d", i%7))
		last := sequences[s.ID]
		r := eventstore.Stored{
			Position: eventstore.Position(i + 1), Stream: s, Sequence: last.Sequence + 1, Prev: last.Position,
			Commit: id, At: domain.IDTime(id).Time(),
		}
		var err error
		e := domain.Event(projects.KeyRevoked{KeyID: fmt.Sprintf("Name %d", i)})
		if r.Body, err = codec.Encode(s, r.Sequence, id, e); err != nil {
			t.Fatal(err)
		}
		sequences[s.ID] = r
		w.records = append(w.records, r)
	}
	path := filepath.Join(t.TempDir(), "ledger.db")
	if _, err := bolt.Build(t.Context(), path, w.log, all(w.records)); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.file, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return w
}

func all(records []eventstore.Stored) func(func(eventstore.Stored, error) bool) {
	return func(yield func(eventstore.Stored, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// checkpoint is that of the first n events.
func (w *world) checkpoint(n int) salvage.Checkpoint {
	s := translog.NewStreaming()
	for _, r := range w.records[:n] {
		_ = s.Append(r.Body) // there is nothing to differ from
	}
	return salvage.Checkpoint{
		Checkpoint: translog.Checkpoint{Origin: translog.Origin(w.log), Size: eventstore.Position(n), Root: s.Root()},
		Name:       fmt.Sprintf("checkpoint %d", n),
	}
}

// without damages the records of positions in a copy of the file.
func (w *world) without(t *testing.T, positions ...int) []byte {
	t.Helper()
	b := bytes.Clone(w.file)
	_, err := bolt.Carve(t.Context(), bytes.NewReader(w.file), int64(len(w.file)), func(int64) {}, func(c bolt.Carved) error {
		if slices.Contains(positions, int(c.Position)) {
			b[c.Offset+40] ^= 4
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func ledger(t *testing.T, name string, b []byte) *salvage.Source {
	t.Helper()
	s, err := salvage.Ledger(t.Context(), name, bytes.NewReader(b), int64(len(b)), func(int64) {})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// lines is an export of the records for which change, if set, returns true.
func (w *world) lines(t *testing.T, name string, kind salvage.Kind, change func(*eventstore.Stored) bool) *salvage.Source {
	t.Helper()
	var b []byte
	for _, r := range w.records {
		r.Body = bytes.Clone(r.Body)
		if change == nil || change(&r) {
			b = salvage.AppendLine(b, r.Position, r.Body)
		}
	}
	s, err := salvage.Lines(t.Context(), name, kind, bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func only(from, through int) func(*eventstore.Stored) bool {
	return func(r *eventstore.Stored) bool {
		return int(r.Position) >= from && int(r.Position) <= through
	}
}

// rename replaces the event at each position by another valid event.
func rename(at ...int) func(*eventstore.Stored) bool {
	return func(r *eventstore.Stored) bool {
		if slices.Contains(at, int(r.Position)) {
			r.Body = bytes.Replace(r.Body, []byte("Name "), []byte("Nama "), 1)
		}
		return true
	}
}

func (w *world) plan(t *testing.T, o salvage.Options, sources ...*salvage.Source) *salvage.Plan {
	t.Helper()
	p, err := salvage.MakePlan(t.Context(), sources, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// rebuilt compares the records of the plan with the log.
func (w *world) rebuilt(t *testing.T, p *salvage.Plan) {
	t.Helper()
	n := 0
	for r, err := range p.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		want := w.records[n]
		if r.Position != want.Position || !bytes.Equal(r.Body, want.Body) || r.Commit != want.Commit || r.Stream != want.Stream {
			t.Fatalf("position %d is not what it was: %s", r.Position, r.Body)
		}
		n++
	}
	if n != int(p.Cut) {
		t.Errorf("%d records up to %d", n, p.Cut)
	}
}

func faults(p *salvage.Plan) (s string) {
	for _, f := range p.Faults {
		s += fmt.Sprintf("%d-%d %s; ", f.From, f.Through, f.Why)
	}
	return s
}

func TestPlan(t *testing.T) {
	t.Parallel()
	const n = 60
	w := newWorld(t, n)
	newest, older := w.checkpoint(n), w.checkpoint(40)
	against := func(c ...salvage.Checkpoint) salvage.Options { return salvage.Options{Checkpoints: c} }
	for name, tt := range map[string]struct {
		options salvage.Options
		sources []*salvage.Source
		faults  string
		proved  int
		cut     int
		whole   bool
	}{
		"a log as it was": {against(newest), []*salvage.Source{ledger(t, "a", w.file)}, "", n, n, true},
		"no checkpoint":   {against(), []*salvage.Source{ledger(t, "a", w.file)}, "", 0, n, false},
		"a damaged one and its copy in JetStream": {
			against(newest), []*salvage.Source{ledger(t, "a", w.without(t, 3, 4, 33)), w.lines(t, "b", salvage.KindEvents, nil)}, "", n, n, true,
		},
		"two damaged ones": {
			against(newest), []*salvage.Source{ledger(t, "a", w.without(t, 3, 4, 33)), ledger(t, "b", w.without(t, 5, 60))}, "", n, n, true,
		},
		"the same places damaged": {
			against(older, newest),
			[]*salvage.Source{ledger(t, "a", w.without(t, 3, 50, 51)), ledger(t, "b", w.without(t, 50, 51))},
			"50-51 missing; ", 40, 49, false,
		},
		"the end is gone": {
			against(newest), []*salvage.Source{w.lines(t, "a", salvage.KindEvents, only(1, 55))}, "56-60 missing; ", 0, 55, false,
		},
		"an export alone, behind the checkpoint": {
			against(older), []*salvage.Source{w.lines(t, "a", salvage.KindExport, nil)}, "41-60 unproved; ", 40, 40, false,
		},
		"the same, agreed to": {
			salvage.Options{Checkpoints: []salvage.Checkpoint{older}, Unproved: true},
			[]*salvage.Source{w.lines(t, "a", salvage.KindExport, nil)},
			"", 40, n, false,
		},
		"two exports": {
			against(older), []*salvage.Source{w.lines(t, "a", salvage.KindExport, nil), w.lines(t, "b", salvage.KindExport, only(30, 60))}, "", 40, n, true,
		},
		"two that differ, proved": {
			against(newest), []*salvage.Source{w.lines(t, "a", salvage.KindExport, rename(7, 20)), w.lines(t, "b", salvage.KindExport, rename(8))}, "", n, n, true,
		},
		"two that differ, the checkpoint is older": {
			against(older),
			[]*salvage.Source{w.lines(t, "a", salvage.KindExport, rename(7, 50)), w.lines(t, "b", salvage.KindEvents, nil)},
			"50-50 conflict; ", 40, 49, false,
		},
		"nobody is right": {
			against(older, newest), []*salvage.Source{w.lines(t, "a", salvage.KindExport, rename(45))}, "41-60 contradicted; ", 40, 40, false,
		},
		"a record on a page out of use": {
			against(older), []*salvage.Source{ledger(t, "a", slices.Concat(make([]byte, 8192), w.file[8192:]))}, "41-60 unproved; ", 40, 40, false,
		},
		"the same with an export": {
			against(older), []*salvage.Source{
				ledger(t, "a", slices.Concat(make([]byte, 8192), w.file[8192:])), w.lines(t, "b", salvage.KindExport, nil),
			}, "", 40, n, true,
		},
		"nothing": {against(newest), nil, "1-60 missing; ", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := w.plan(t, tt.options, tt.sources...)
			if got := faults(p); got != tt.faults || int(p.Proved) != tt.proved || int(p.Cut) != tt.cut || p.Whole() != tt.whole {
				t.Errorf("faults %q, proved %d, cut %d, whole %v; want %q, %d, %d, %v",
					got, p.Proved, p.Cut, p.Whole(), tt.faults, tt.proved, tt.cut, tt.whole)
			}
			w.rebuilt(t, p)
		})
	}
}

// TestUndoneCommit: an unused page has another event than the acknowledged one at
// the same position.
func TestUndoneCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	other := newWorld(t, 20)
	rename(15)(&other.records[14])
	path := filepath.Join(t.TempDir(), "other")
	if _, err := bolt.Build(t.Context(), path, w.log, all(other.records)); err != nil {
		t.Fatal(err)
	}
	undone, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(undone[:8192]) // of no state
	p := w.plan(t, salvage.Options{Checkpoints: []salvage.Checkpoint{w.checkpoint(10)}}, ledger(t, "a", w.file), ledger(t, "undone", undone))
	if faults(p) != "" || len(p.Choices) != 1 || p.Choices[0].Position != 15 || !slices.Equal(p.Choices[0].Taken, []string{"a"}) {
		t.Errorf("%s %+v", faults(p), p.Choices)
	}
	w.rebuilt(t, p)
	// If the acknowledged event is lost, the other one is not taken.
	p = w.plan(t, salvage.Options{Checkpoints: []salvage.Checkpoint{w.checkpoint(10)}}, ledger(t, "a", w.without(t, 15)), ledger(t, "undone", undone))
	if got := faults(p); got != "15-15 unproved; " || p.Cut != 14 {
		t.Errorf("%s, cut %d", got, p.Cut)
	}
}

func TestWriteRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	p := w.plan(t, salvage.Options{Checkpoints: []salvage.Checkpoint{w.checkpoint(40)}},
		ledger(t, "a", w.without(t, 30, 31)), w.lines(t, "b", salvage.KindExport, func(r *eventstore.Stored) bool {
			return r.Position > 31 && rename(50)(r)
		}))
	if got := faults(p); got != "30-31 missing; 50-50 conflict; " {
		t.Fatal(got)
	}
	var b bytes.Buffer
	rest, err := p.WriteRest(t.Context(), &b, func(s eventstore.Stream) (n uint64, _ error) {
		for _, r := range w.records[:29] {
			if r.Stream == s {
				n = r.Sequence
			}
		}
		return n, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if rest.Events != 30 || bytes.Count(b.Bytes(), []byte("\n")) != 30 { // 50 twice
		t.Errorf("%+v", rest)
	}
	for _, at := range []int{30, 31} {
		r := w.records[at-1]
		i := slices.IndexFunc(rest.Lost, func(l salvage.Lost) bool { return l.ID == r.Stream.ID })
		if len(rest.Lost) != 2 || i < 0 || rest.Lost[i].From != r.Sequence || rest.Lost[i].Through != r.Sequence || rest.Lost[i].Position != r.Position {
			t.Errorf("%+v", rest.Lost)
		}
	}
}

// TestManyConflicts: one export was altered in many places, another in others.
func TestManyConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 200)
	random := rand.New(rand.NewPCG(5, 6))
	var some []int
	for range 90 {
		some = append(some, random.IntN(200)+1)
	}
	began := time.Now()
	p := w.plan(t, salvage.Options{Checkpoints: []salvage.Checkpoint{w.checkpoint(200)}},
		w.lines(t, "a", salvage.KindExport, rename(some...)), w.lines(t, "b", salvage.KindExport, nil))
	if !p.Whole() {
		t.Errorf("one source is right everywhere: %s", faults(p))
	}
	w.rebuilt(t, p)
	p = w.plan(t, salvage.Options{Checkpoints: []salvage.Checkpoint{w.checkpoint(200)}},
		w.lines(t, "a", salvage.KindExport, rename(some[:45]...)), w.lines(t, "b", salvage.KindExport, rename(some[45:]...)))
	if p.Proved != 0 || p.Cut >= 200 {
		t.Errorf("2^%d ways: proved %d, %s", len(some), p.Proved, faults(p))
	}
	t.Logf("%v", time.Since(began))
}
