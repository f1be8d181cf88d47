package bolt

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

// formatCommits are the commits of the logs in testdata: streams of all kinds, with
// and without claims.
func formatCommits(t *testing.T) (all []eventstore.Commit) {
	t.Helper()
	id := func(n byte) domain.ID { return domain.ID{1, 160, 112, 116, 98, 90, 15: n} }
	project := "prj_" + id(1).String()
	payment := eventstore.PaymentStream(project, id(2))
	for i, r := range []struct {
		stream eventstore.Stream
		expect eventstore.Position
		claim  *eventstore.Claim
	}{
		{eventstore.ProjectStream(project), 0, nil},
		{payment, 0, &eventstore.Claim{Key: domain.Digest{1}, Fingerprint: domain.Digest{2}}},
		{payment, 2, &eventstore.Claim{Key: domain.Digest{1}, Forever: true}},
		{eventstore.Stream{Project: "other", Kind: "kind", ID: "id"}, 0, nil},
	} {
		event := id(byte(10 + i))
		all = append(all, eventstore.Commit{ID: event, Claim: r.claim, Record: eventstore.Record{
			Stream: r.stream, Expect: r.expect, Body: []byte(`{"id":"` + event.String() + `","type":"payment.paid"}`),
		}})
	}
	all[1].Record.Details = append(make([]byte, eventstore.SaltSize), `{"description":"order-1042","payload":{}}`...)
	return all
}

// TestFormats opens the logs of testdata, one for each version that was ever
// written. Those that this program reads are read whole; an older one is refused with
// instructions. If there is none of this version, the test writes it and fails once.
func TestFormats(t *testing.T) {
	t.Parallel()
	current := filepath.Join("testdata", fmt.Sprintf("format-%d.db.gz", FormatVersion))
	if _, err := os.Stat(current); err != nil {
		makeFormat(t, current)
		t.Errorf("%s was missing and is made now: add it, and never change it", current)
	}
	files, err := filepath.Glob("testdata/format-*.db.gz")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		version, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(file, "testdata/format-"), ".db.gz"))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "ledger.db")
		if err := os.WriteFile(path, unzipped(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
		if version < oldFormat || version == skippedFormat {
			_, err := openDefault(path)
			wantOpenError(t, file, err, ErrOutdated)
			continue
		}
		s := reopened(t, path)
		if err := s.Verify(t.Context()); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		commits, n := formatCommits(t), 0
		for r, err := range s.Scan(t.Context(), 0, eventstore.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			c := commits[n]
			if r.Commit != c.ID || r.Stream != c.Record.Stream || !bytes.Equal(r.Body, c.Record.Body) || (r.Claim == nil) != (c.Claim == nil) || (r.Claim != nil && *r.Claim != *c.Claim) {
				t.Errorf("%s: %+v, want %+v", file, r, c)
			}
			if had := version >= 7; !bytes.Equal(r.Details, c.Record.Details) && had || r.Details != nil && !had {
				t.Errorf("%s: details %q", file, r.Details)
			}
			n++
		}
		// A file of an older format takes details, and is one of this format once it is written to.
		fresh := commits[1]
		fresh.ID, fresh.Claim, fresh.Record.Stream.ID = domain.ID{1, 160, 112, 116, 98, 90, 15: 99}, nil, domain.ID{15: 9}.String()
		if _, err := eventstore.AppendOne(t.Context(), s, fresh); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = reopened(t, path)
		if err := s.view(0, func(tx *bbolt.Tx) error {
			return checkIs(tx.Bucket(bucketMeta).Get(keyFormat), formatOf(FormatVersion))
		}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for r, err := range s.Load(t.Context(), fresh.Record.Stream) {
			if err != nil || !bytes.Equal(r.Details, fresh.Record.Details) {
				t.Errorf("%s: added details %q, %v", file, r.Details, err)
			}
		}
		if err := s.Verify(t.Context()); err != nil {
			t.Errorf("%s, with details: %v", file, err)
		}
		if n != len(commits) {
			t.Errorf("%s: %d records, want %d", file, n, len(commits))
		}
	}
}

func checkIs(got []byte, want string) error {
	if string(got) != want {
		return fmt.Errorf("%q, want %q", got, want)
	}
	return nil
}

func makeFormat(t *testing.T, name string) {
	t.Helper()
	path := newLog(t)
	s := reopened(t, path)
	for _, c := range formatCommits(t) {
		if _, err := eventstore.AppendOne(t.Context(), s, c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	_, _ = w.Write(b)
	_ = w.Close()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, zipped.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

func unzipped(t *testing.T, name string) []byte {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	r, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
