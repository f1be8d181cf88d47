package export

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/translog"
)

// bundleOf writes a bundle of n events, of which those at multiples of hidden are opaque.
func bundleOf(t *testing.T, n, hidden int, project string) (*Bundle, []eventstore.Stored) {
	t.Helper()
	codec := eventstore.NewCodec()
	ids := domain.NewIDs(func() time.Time { return time.UnixMilli(1_795_169_730_123) }, rand.Reader, domain.ID{})
	secret, err := translog.NewKey(rand.Reader, translog.Origin(domain.ID{7}))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := translog.ParseSigner(secret)
	if err != nil {
		t.Fatal(err)
	}
	var records []eventstore.Stored
	var lines []byte
	var tree translog.Edge
	for i := range n {
		id := ids.Next()
		s := eventstore.PaymentStream("prj_1", ids.Next())
		body, err := codec.Encode(s, 1, id, eventstore.Cause{}, domain.PaymentCreated{Amount: 1050, Currency: "RUB", Payload: domain.EmptyObject()})
		if err != nil {
			t.Fatal(err)
		}
		r := eventstore.Stored{Position: eventstore.Position(i + 1), Stream: s, Sequence: 1, Commit: id, At: domain.IDTime(id).Time(), Body: body}
		tree.Append(nil, translog.Leaf(body))
		if hidden > 0 && (i+1)%hidden == 0 {
			r = eventstore.OpaqueRecord(r.Position, domain.Digest(translog.Leaf(body)))
			if i > 0 {
				r.At = records[i-1].At
			}
		}
		records = append(records, r)
		lines, _ = jsonlFormat{}.render(lines, r)
	}
	point := translog.Checkpoint{Origin: signer.Origin(), Size: tree.Size(), Root: tree.Root()}
	signed, err := signer.Sign(point)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		EventsFile: lines, CheckpointFile: signed, KeyFile: []byte(signer.VerifierKey() + "\n"), JournalFile: nil,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeManifest(dir, point, project); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "b.tar")
	if err := packBundle(name, dir); err != nil {
		t.Fatal(err)
	}
	return &Bundle{Path: name}, records
}

func opened(t *testing.T, b *Bundle) *Log {
	t.Helper()
	l, _, err := b.CheckedLog(t.Context(), audit.Against{}, func(_, _ eventstore.Position) {})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// A bundle's log yields the records it was made of, from wherever it is read.
func TestBundleLogReadsFromAnyPosition(t *testing.T) {
	t.Parallel()
	for _, hidden := range []int{0, 3} {
		b, want := bundleOf(t, 2*markEach+7, hidden, map[bool]string{true: "prj_1"}[hidden > 0])
		l := opened(t, b)
		if last, _ := l.Last(t.Context()); last != eventstore.Position(len(want)) {
			t.Fatalf("it ends at %d", last)
		}
		for _, after := range []int{0, 1, markEach - 1, markEach, markEach + 1, 2 * markEach, len(want) - 1, len(want)} {
			at := after
			for r, err := range l.Scan(t.Context(), eventstore.Position(after), eventstore.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				w := want[at]
				if r.Position != w.Position || r.Stream != w.Stream || !bytes.Equal(r.Body, w.Body) || !r.At.Equal(w.At) {
					t.Fatalf("after %d: %+v, want %+v", after, r, w)
				}
				at++
			}
			if at != len(want) {
				t.Errorf("after %d it ends at %d of %d", after, at, len(want))
			}
		}
		n := 0
		for r, err := range l.Load(t.Context(), want[markEach].Stream) {
			if n++; err != nil || r.Position != want[markEach].Position {
				t.Errorf("%+v: %v", r, err)
			}
		}
		if n != 1 {
			t.Errorf("the stream has %d records", n)
		}
		if a := l.Append(t.Context(), eventstore.Commit{}); !errors.Is(a[0].Err, ErrBundle) {
			t.Error(a)
		}
	}
}

// A bundle may have many GB: when its context ends, reading ends.
func TestBundleIsReadNoFurtherWhenAskedToStop(t *testing.T) {
	t.Parallel()
	b, _ := bundleOf(t, 10, 0, "")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := b.Survey(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A line that cannot be read hides no other one.
func TestVerifyReadsOnAfterAnUnreadableLine(t *testing.T) {
	t.Parallel()
	b, _ := bundleOf(t, 9, 0, "")
	all, err := os.ReadFile(b.Path)
	if err != nil {
		t.Fatal(err)
	}
	all[bytes.Index(all, []byte(`{"position":5,`))] = 'x'
	if err := os.WriteFile(b.Path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := b.Verify(t.Context(), audit.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r.Events != 8 || r.Last != 9 || r.Completeness.Outcome == audit.Failed {
		t.Errorf("%d events up to %d, %s: %v", r.Events, r.Last, r.Completeness.Outcome, r.Findings)
	}
}

// A bundle that says it is whole has no opaque events, and none has a path out of the archive.
func TestBundlesThatAreRefused(t *testing.T) {
	t.Parallel()
	b, _ := bundleOf(t, 10, 3, "")
	if _, _, err := b.CheckedLog(t.Context(), audit.Against{}, func(_, _ eventstore.Position) {}); err == nil {
		t.Error("a whole bundle with an opaque event is accepted")
	}
	for _, name := range []string{"../x", "/x", "a/../../x", ".."} {
		var out bytes.Buffer
		w := tar.NewWriter(&out)
		if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600}), w.Close()); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "b.tar")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&Bundle{Path: path}).Survey(t.Context()); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}
