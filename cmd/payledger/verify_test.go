package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/cmd/payledger/cli"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
	"payledger/eventstore/translog"
)

// evidenceDir is a stopped directory with a log of some payments, a checkpoint of it
// that is kept elsewhere, and an older state of the log.
type evidenceDir struct {
	dir        string
	older      string // copy of the log before the last payment
	checkpoint string // of the whole log
	key        string
	last       eventstore.Position
	records    []eventstore.Stored
}

func newEvidenceDir(t *testing.T) *evidenceDir {
	t.Helper()
	tmp := t.TempDir()
	e := &evidenceDir{
		dir: filepath.Join(tmp, "d"), older: filepath.Join(tmp, "older.db"),
		checkpoint: filepath.Join(tmp, "kept"), key: filepath.Join(tmp, "verifier.key"),
	}
	for range 2 {
		s := start(t, "demo", "--data", e.dir)
		id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"1500.00","description":"order-1042"}`).text(t, "id")
		s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
		s.stops(t)
		if _, err := os.Stat(e.older); err != nil {
			duplicate(t, e.older, e.ledger())
		}
	}
	store, err := bolt.OpenReadOnly(e.ledger())
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		e.records, e.last = append(e.records, r), r.Position
	}
	secret, err := os.ReadFile(filepath.Join(e.dir, "log.key"))
	if err != nil {
		t.Fatal(err)
	}
	signer, err := translog.ParseSigner(string(secret))
	if err != nil {
		t.Fatal(err)
	}
	duplicate(t, e.checkpoint, filepath.Join(e.dir, "checkpoint"))
	put(t, e.key, []byte(signer.VerifierKey()+"\n"))
	return e
}

func (e *evidenceDir) ledger() string      { return filepath.Join(e.dir, "ledger.db") }
func (e *evidenceDir) projections() string { return filepath.Join(e.dir, "projections.db") }

// copied is a copy of the directory's log and projections.
func (e *evidenceDir) copied(t *testing.T) *evidenceDir {
	t.Helper()
	c := *e
	c.dir = t.TempDir()
	for _, name := range []string{"ledger.db", "projections.db", "master.key", "log.key"} {
		duplicate(t, filepath.Join(c.dir, name), filepath.Join(e.dir, name))
	}
	return &c
}

// created is the first payment.created.
func (e *evidenceDir) created(t *testing.T) eventstore.Stored {
	t.Helper()
	for _, r := range e.records {
		if bytes.Contains(r.Body, []byte(`"payment.created"`)) {
			return r
		}
	}
	t.Fatal("no payment")
	return eventstore.Stored{}
}

// verify runs the command and returns its report.
func verify(t *testing.T, want int, args ...string) audit.Report {
	t.Helper()
	out, code := payledger(t, append([]string{"verify", "--json"}, args...)...)
	if code != want {
		t.Fatalf("exit code %d, want %d\n%s", code, want, out)
	}
	var r audit.Report
	line, _, _ := strings.Cut(out, "\n")
	if want == 0 || want == cli.ExitVerify {
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return r
}

func (e *evidenceDir) kept() []string {
	return []string{"--checkpoint", e.checkpoint, "--verifier-key", e.key}
}

func TestVerifyFindsTampering(t *testing.T) {
	t.Parallel()
	e := newEvidenceDir(t)

	t.Run("clean", func(t *testing.T) {
		t.Parallel()
		r := verify(t, 0, append(e.kept(), "--data", e.dir)...)
		if r.Completeness.Outcome != audit.OK || r.Projections.Outcome != audit.OK || r.Found != 0 || r.Events != uint64(e.last) {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an older state of the log", func(t *testing.T) {
		t.Parallel()
		r := verify(t, cli.ExitVerify, append(e.kept(), e.older)...)
		if r.Completeness.Outcome != audit.Failed || r.Integrity.Outcome != audit.OK || r.FirstBad != r.Last+1 || r.Findings[0].Kind != audit.Truncated {
			t.Errorf("%+v", r)
		}
		// Nothing else shows it.
		if r := verify(t, 0, e.older); r.Completeness.Outcome != audit.NotChecked {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an older state of the log beside newer projections", func(t *testing.T) {
		t.Parallel()
		c := e.copied(t)
		duplicate(t, c.ledger(), e.older)
		r := verify(t, cli.ExitVerify, "--data", c.dir)
		if r.Completeness.Outcome != audit.Failed || r.FirstBad != r.Last+1 {
			t.Errorf("%+v", r)
		}
		if out, code := payledger(t, "replay", "--check", "--data", c.dir); code != cli.ExitVerify || !strings.Contains(out, "its end is missing") {
			t.Errorf("exit code %d: %s", code, out)
		}
	})
	t.Run("a byte of an event", func(t *testing.T) {
		t.Parallel()
		for _, live := range []bool{false, true} {
			c := e.copied(t)
			at := c.created(t)
			if live {
				// A relay that still has to copy a damaged record ends the server.
				s := start(t, "serve", "--data", c.dir, "--admin-listen", "127.0.0.1:0")
				eventually(t, "all is in JetStream", func() bool {
					return bytes.Contains(s.scrape(t), []byte("payledger_relay_lag_events 0\n"))
				})
			}
			c.flip(t, at.Commit)
			r := verify(t, cli.ExitVerify, append(c.kept(), "--data", c.dir)...)
			if r.FirstBad != at.Position || r.Findings[0].Kind != audit.DamagedRecord || r.Found != 1 {
				t.Errorf("live %t: want position %d: %+v", live, at.Position, r)
			}
		}
	})
	t.Run("an event and its checksum", func(t *testing.T) {
		t.Parallel()
		c := e.copied(t)
		at := c.created(t)
		c.rewrite(t, at, `"render":1`, `"render":2`)
		r := verify(t, cli.ExitVerify, append(c.kept(), "--data", c.dir)...)
		if r.FirstBad != at.Position || r.Findings[0].Kind != audit.WrongRoot || r.Projections.Outcome != audit.Failed {
			t.Errorf("want position %d: %+v", at.Position, r)
		}
		// Without projections the checkpoint shows that there is damage, but not
		// where. Without both nothing shows it.
		if r := verify(t, cli.ExitVerify, append(c.kept(), c.ledger())...); r.Findings[0].Kind != audit.WrongRoot || r.Findings[0].Through != e.last {
			t.Errorf("%+v", r)
		}
		verify(t, 0, c.ledger())
	})
	t.Run("a file cut off", func(t *testing.T) {
		t.Parallel()
		c := e.copied(t)
		if err := os.Truncate(c.ledger(), 5*int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		verify(t, cli.ExitDirectory, "--data", c.dir)
	})
	t.Run("a checkpoint of another log", func(t *testing.T) {
		t.Parallel()
		other := newEvidenceDir(t)
		r := verify(t, cli.ExitVerify, append(other.kept(), "--data", e.dir)...)
		if r.Findings[0].Kind != audit.BadCheckpoint {
			t.Errorf("%+v", r)
		}
	})
}

func TestVerifyFindsTamperedProjections(t *testing.T) {
	t.Parallel()
	e := newEvidenceDir(t)
	for name, spoil := range map[string]func(t *testing.T, c *evidenceDir){
		"a value": func(t *testing.T, c *evidenceDir) {
			t.Helper()
			edit(t, c.projections(), "payments", func(_, v []byte) []byte {
				return bytes.Replace(v, []byte("order-1042"), []byte("order-9999"), 1)
			})
		},
		"a key removed": func(t *testing.T, c *evidenceDir) {
			t.Helper()
			edit(t, c.projections(), "payments_by_status", func(_, _ []byte) []byte { return nil })
		},
		"half a file": func(t *testing.T, c *evidenceDir) {
			t.Helper()
			if err := os.Truncate(c.projections(), 8192); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := e.copied(t)
			spoil(t, c)
			r := verify(t, cli.ExitVerify, append(c.kept(), "--data", c.dir)...)
			if r.Projections.Outcome != audit.Failed || r.Integrity.Outcome != audit.OK || r.Completeness.Outcome != audit.OK {
				t.Errorf("%+v", r)
			}
			if out, code := payledger(t, "replay", "--check", "--data", c.dir); code != cli.ExitVerify || !strings.Contains(out, "delete") {
				t.Errorf("exit code %d: %s", code, out)
			}
		})
	}
}

// flip flips one bit in the middle of each copy of the event's record in the log's
// file.
func (e *evidenceDir) flip(t *testing.T, event domain.ID) {
	t.Helper()
	f, err := os.OpenFile(e.ledger(), os.O_RDWR, 0) // in place: a server may have the file mapped
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, record := range recordsOf(b, event) {
		n++
		middle := record + recordLeast/2
		if _, err := f.WriteAt([]byte{b[middle] ^ 4}, int64(middle)); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatal("the event is not in the file")
	}
}

// rewrite replaces text in a record's body and encodes the record again, with this
// body and a right checksum, as package bolt defines it.
func (e *evidenceDir) rewrite(t *testing.T, r eventstore.Stored, was, is string) {
	t.Helper()
	key := binary.BigEndian.AppendUint64(nil, uint64(r.Position))
	edit(t, e.ledger(), "records", func(k, v []byte) []byte {
		if !bytes.Equal(k, key) {
			return v
		}
		var details []byte // behind the record, with their size in the last two bytes
		if v[5]&16 != 0 {
			details = bytes.Clone(v[len(v)-2-int(binary.BigEndian.Uint16(v[len(v)-2:])):])
		}
		v = append(recordHeader(v), bytes.Replace(r.Body, []byte(was), []byte(is), 1)...)
		v[5] &^= 2
		binary.BigEndian.PutUint32(v, crc32.Checksum(append(bytes.Clone(key), v[4:]...), crc32.MakeTable(crc32.Castagnoli)))
		return append(v, details...)
	})
}

// recordHeader is the part of a payment's record before the body.
func recordHeader(v []byte) []byte {
	const claim, payment = 1, 4
	n := 22
	for range 2 {
		_, size := binary.Uvarint(v[n:])
		n += size
	}
	if v[5]&claim != 0 {
		n += 64
	}
	if v[5]&payment == 0 {
		panic("no payment's record")
	}
	return bytes.Clone(v[:n+32])
}

// edit changes the values of a bucket; nil removes the key.
func edit(t *testing.T, file, bucket string, change func(k, v []byte) []byte) {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return fmt.Errorf("no bucket %s", bucket)
		}
		changed := make(map[string][]byte)
		err := b.ForEach(func(k, v []byte) error {
			changed[string(k)] = change(k, bytes.Clone(v))
			return nil
		})
		if err != nil {
			return err
		}
		for k, v := range changed {
			if v == nil {
				err = b.Delete([]byte(k))
			} else {
				err = b.Put([]byte(k), v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func duplicate(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	put(t, to, b)
}

func put(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A report that could not be written is a failure; the message still says that the
// log is bad.
func TestReportThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("needs /dev/full:", err)
	}
	defer full.Close()
	bad := audit.Report{Integrity: audit.Verdict{Outcome: audit.Failed}}
	for _, asJSON := range []bool{false, true} {
		a := &cli.App{Stdout: full, JSON: asJSON}
		if code := report(io.Discard, printReport(a, &audit.Report{})); code != cli.ExitFailed {
			t.Errorf("json %v: exit code %d", asJSON, code)
		}
		if code := report(io.Discard, printReport(a, &bad)); code != cli.ExitVerify {
			t.Errorf("json %v, a bad log: exit code %d", asJSON, code)
		}
	}
}
