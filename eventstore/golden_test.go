package eventstore

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/settlement"
)

var update = flag.Bool("update", false, "write the golden encodings that are missing; those there are never change")

const goldens = "testdata/events"

func golden(name string, version int) string {
	return filepath.Join(goldens, fmt.Sprintf("%s.v%d.json", name, version))
}

// sampled is the record that a golden encoding is of.
func sampled(e domain.Event, body []byte) Stored {
	id := domain.ID{1, 161, 248, 116, 62, 75, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	s := ProjectStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3")
	switch e.(type) {
	case installation.Event, installation.Act:
		s = InstallationStream()
	case deliveries.Noted:
		s = DeliveriesStream()
	case settlement.ReportOpened, settlement.ReportClosed:
		s = ReportsStream("cards")
	case settlement.PayoutArrived, settlement.PayoutUndone:
		s = ArrivedStream("cards")
	case settlement.PayoutToMerchant:
		s = PaidStream(s.Project)
	case settlement.ReportLines, settlement.LineResolved:
		s = BookStream(s.Project, "cards:2026-11-20")
	}
	if _, ok := e.(domain.PaymentEvent); ok {
		s = PaymentStream(s.Project, domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3})
	}
	var details []byte
	if created, ok := e.(domain.PaymentCreated); ok && created.Details != nil && created.Description != nil {
		details = append(make([]byte, SaltSize), `{"description":"`+*created.Description+`","payload":`+string(created.Payload)+`}`...)
	}
	return Stored{Details: details, Position: 9, Stream: s, Sequence: 3, Prev: 7, Commit: id, At: domain.IDTime(id).Time(), Body: body}
}

// Every event has one golden encoding for each of its versions. The newest is the
// one written now; all can be decoded.
func TestGoldenEncodings(t *testing.T) {
	t.Parallel()
	c := NewCodec()
	known := make(map[string]bool)
	for _, e := range EventTypes() {
		for v := 1; v <= e.Version; v++ {
			known[filepath.Base(golden(e.Name, v))] = true
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel()
			r := sampled(e.Sample, nil)
			got, err := c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e.Sample)
			if err != nil {
				t.Fatal(err)
			}
			path := golden(e.Name, e.Version)
			want, err := os.ReadFile(path)
			if errors.Is(err, fs.ErrNotExist) && *update {
				want = slices.Concat(got, []byte("\n"))
				err = os.WriteFile(path, want, 0o600)
			}
			if err != nil {
				t.Fatalf("%v: a new event or version needs its golden encoding; run go test ./eventstore -update", err)
			}
			if d := cmp.Diff(string(want), string(got)+"\n"); d != "" {
				t.Errorf("%s: the encoding changed; a changed shape is a new version, and lift converts the old one (-golden +now):\n%s", path, d)
			}
			for v := 1; v <= e.Version; v++ {
				body, err := os.ReadFile(golden(e.Name, v))
				if err != nil {
					t.Error(err)
					continue
				}
				if r = sampled(e.Sample, body); v < e.Version {
					r.Details = nil // no version before the last one has any
				}
				decoded, err := c.Decode(r)
				if err != nil {
					t.Errorf("version %d: %v", v, err)
				}
				if d := cmp.Diff(e.Sample, decoded, cmpopts.EquateComparable(domain.Sum{})); v == e.Version && d != "" {
					t.Errorf("-sample +decoded:\n%s", d)
				}
			}
		})
	}
	files, err := os.ReadDir(goldens)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !known[f.Name()] {
			t.Errorf("%s: there is no such event or version; what was recorded once must stay readable", f.Name())
		}
	}
}
