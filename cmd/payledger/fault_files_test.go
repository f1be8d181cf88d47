package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/boltfile"
)

// ends waits for the end of a server and returns its exit code and log.
func (s *server) ends(t *testing.T, what string) (code int, log string) {
	t.Helper()
	select {
	case <-s.exited:
	case <-time.After(patience):
		t.Errorf("%s: the server does not end", what)
		s.kill()
	}
	return s.cmd.ProcessState.ExitCode(), s.stderr.String()
}

// TestLogReplacedUnderTheServer removes ledger.db under a running server. It refuses all that would
// be recorded and says what to do; done so, everything acknowledged is there.
func TestLogReplacedUnderTheServer(t *testing.T) {
	t.Parallel()
	for what, replace := range map[string]func(d datadir.Dir) error{
		"removed":  func(d datadir.Dir) error { return os.Remove(d.Ledger()) },
		"replaced": func(d datadir.Dir) error { return os.Rename(d.Ledger()+".older", d.Ledger()) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			h := newShop(t, filepath.Join(t.TempDir(), "data"))
			d := datadir.Dir(h.data)
			copyFile(t, d.Ledger(), d.Ledger()+".older")
			s := h.serve(t)
			wait := h.open(s, 8, 1<<16, 0)
			h.until(t, "payments are made", func() bool { return len(h.made) >= 100 })
			if err := replace(d); err != nil {
				t.Fatal(err)
			}
			s.do(t, 503, "POST", "/v1/payments", `{"amount":"7.77"}`)
			s.do(t, 503, "GET", "/readyz", "")
			copied := filepath.Join(t.TempDir(), "open.db")
			if _, errs, code := command("backup", copied, "--data", h.data); code != 0 {
				t.Fatalf("%s: backup: %d %s", what, code, errs)
			}
			code := s.stop()
			wait()
			advice := "\"payledger backup FILE --data " + h.data + "\""
			for _, said := range []string{"gone: ", " and nowhere else", "move it back to " + d.Ledger(), advice, "payledger restore FILE"} {
				if n := strings.Count(s.stderr.String(), strings.ReplaceAll(said, `"`, `\"`)); code == 0 || n < 2 {
					t.Errorf("exit code %d, %d times %q\n%s", code, n, said, s.stderr)
				}
			}
			if what == "removed" {
				if _, errs, code := command(h.args()...); code != cli.ExitDirectory || !strings.Contains(errs, "has no ledger.db") {
					t.Errorf("a start without the log: %d %s", code, errs)
				}
			}
			if _, errs, code := command("restore", copied, "--data", h.data); code != 0 {
				t.Fatalf("%s: restore: %d %s", what, code, errs)
			}
			s = h.serve(t)
			h.intact(t, what, s)
			s.stops(t)
		})
	}
}

// TestFilesCutOffUnderLoad truncates a file of the directory under a running server,
// and while none runs: each of them in the long form. Derived files are rebuilt without
// loss; a truncated log is reported. Nothing hangs.
func TestFilesCutOffUnderLoad(t *testing.T) {
	t.Parallel()
	files := map[string]func(datadir.Dir) string{"projections": datadir.Dir.Projections}
	for name, file := range files {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, to := newShop(t, filepath.Join(t.TempDir(), "data")), newHook(t)
			path := file(datadir.Dir(h.data))
			args := []string{"--webhook-allow-private"}
			for round, size := range []int64{8192, 0}[:rounds(1, 2)] {
				s := h.serve(t, args...)
				if round == 0 {
					s.do(t, 201, "POST", "/v1/webhook-endpoints", fmt.Sprintf(`{"url":%q,"kinds":["payment.created"]}`, to.URL+"/all"))
				}
				wait := h.open(s, 4, 1<<16, round)
				h.until(t, "payments are made", func() bool { return len(h.made) >= 60*(round+1) })
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("cut to %d bytes", size)
				if code, log := s.ends(t, what); code == 0 || !bytes.Contains([]byte(log), []byte("cut off")) {
					t.Errorf("%s: exit code %d\n%s", what, code, log)
				}
				wait()
				s = h.serve(t, args...)
				h.intact(t, what, s)
				if code := s.stop(); code != 0 {
					t.Errorf("%s: exit code %d\n%s", what, code, s.stderr)
				}
				if err := os.Truncate(path, size); err != nil {
					t.Fatal(err)
				}
			}
			s := h.serve(t, args...)
			h.intact(t, "cut off while no server ran", s)
			s.stops(t)
		})
	}
}

// TestPaymentsThatTheProjectionsLost: a payment that is in the log and not in the
// projections is not answered with 404. The server answers unavailable, ends, and
// finds the payment after its next start. The same holds for damaged pages of the
// projections that nothing reads.
func TestPaymentsThatTheProjectionsLost(t *testing.T) {
	t.Parallel()
	h := newShop(t, filepath.Join(t.TempDir(), "data"))
	d := datadir.Dir(h.data)
	s := h.serve(t)
	h.open(s, 4, 40, 0)()
	s.stops(t)
	var lost domain.ID
	db, err := bbolt.Open(d.Projections(), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		c := tx.Bucket([]byte("payments")).Cursor()
		k, _ := c.First()
		lost = domain.ID(k)
		return c.Delete()
	})
	if closeErr := db.Close(); err != nil || closeErr != nil {
		t.Fatal(err, closeErr)
	}
	s = h.serve(t)
	s.do(t, 404, "GET", "/v1/payments/"+domain.ID{1, 2, 3}.String(), "")
	if a := s.do(t, 503, "GET", "/v1/payments/"+lost.String(), ""); member(a, "code") != "unavailable" {
		t.Errorf("%s", a.Body)
	}
	if code, log := s.ends(t, "a lost payment"); code == 0 || !bytes.Contains([]byte(log), []byte(lost.String())) {
		t.Errorf("exit code %d\n%s", code, log)
	}
	s = h.serve(t)
	s.do(t, 200, "GET", "/v1/payments/"+lost.String(), "")
	s.stops(t)

	spoilLeaf(t, d.Projections(), "payments")
	if s, err = startServer("127.0.0.1:0", h.args()...); err == nil {
		if code, log := s.ends(t, "a damaged page"); code == 0 || !bytes.Contains([]byte(log), []byte("is damaged and was deleted")) {
			t.Errorf("exit code %d\n%s", code, log)
		}
	}
	s = h.serve(t)
	h.intact(t, "a damaged page", s)
	s.stops(t)
}

// TestWrongOverflowInTheLog: a flipped bit that makes bbolt free pages in use, in a
// place without a checksum, is found by verify, backup, restore and the server.
func TestWrongOverflowInTheLog(t *testing.T) {
	t.Parallel()
	h := newShop(t, filepath.Join(t.TempDir(), "data"))
	d := datadir.Dir(h.data)
	s := h.serve(t)
	h.open(s, 4, 40, 0)()
	s.stops(t)
	spoilLeaf(t, d.Ledger(), "heads")
	for _, args := range [][]string{
		{"verify", "--data", h.data},
		{"verify", d.Ledger()},
		{"backup", filepath.Join(t.TempDir(), "backup.db"), "--data", h.data},
		{"restore", d.Ledger(), "--data", filepath.Join(t.TempDir(), "other")},
		h.args("--listen", "127.0.0.1:0"),
	} {
		if _, errs, code := command(args...); code == 0 || !bytes.Contains([]byte(errs), []byte("followed by")) {
			t.Errorf("%s: exit code %d: %s", args[0], code, errs)
		}
	}
}

// spoilLeaf makes a leaf of a bucket say that a page follows it.
func spoilLeaf(t *testing.T, path, bucket string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := boltfile.ReadMeta(f)
	if err != nil {
		t.Fatal(err)
	}
	pages := boltfile.Pages{File: f, Meta: m}
	page, name := m.Root, bucket
	for {
		p, err := pages.Read(page, nil)
		if err != nil {
			t.Fatal(err)
		}
		e, _ := p.Element(0)
		for i := range p.Len() {
			if of, _ := p.Element(i); name != "" && string(of.Key) == name {
				e = of
			}
		}
		switch {
		case p.Branch():
			page = e.Below
		case name != "":
			page, name = binary.NativeEndian.Uint64(e.Value), ""
			if page == 0 {
				t.Fatalf("bucket %s has no page of its own", bucket)
			}
		default:
			if _, err := f.WriteAt([]byte{1}, int64(page)*m.PageSize+12); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
}
