package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bbolt "go.etcd.io/bbolt"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
)

// testdata/older/directory.tar.gz is what a version before left: a data
// directory without nats/ (data/), and the bundle that the same version
// exported of it (log.tar). Its demo took eight payments: paid, failed,
// expired, refunded, with a failed refund, open, with late funds, and one whose
// webhook found nobody. Whoever changes the format of a file keeps this one and
// says below what becomes of it.
const (
	olderArchive  = "testdata/older/directory.tar.gz"
	olderEvents   = 33
	olderPayments = 8
)

// older unpacks the directory and the bundle.
func older(t *testing.T) (d datadir.Dir, bundle string) {
	t.Helper()
	f, err := os.Open(olderArchive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for in := tar.NewReader(unzipped); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return datadir.Dir(filepath.Join(dir, "data")), filepath.Join(dir, "log.tar")
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.Clean("/"+h.Name))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else {
			var b []byte
			if b, err = io.ReadAll(in); err == nil {
				err = os.WriteFile(name, b, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// succeeds runs a command in this process.
func succeeds(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	out, errs, code := command(args...)
	if code != 0 {
		t.Fatalf("payledger %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, errs)
	}
	return out
}

// restoredHere restores the older version's bundle with this version.
func restoredHere(t *testing.T, from datadir.Dir, bundle string) datadir.Dir {
	t.Helper()
	d := datadir.Dir(filepath.Join(t.TempDir(), "restored"))
	if err := os.Mkdir(string(d), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{from.MasterKey(), from.LogKey()} {
		copyTo(t, name, filepath.Join(string(d), filepath.Base(name)))
	}
	succeeds(t, "restore", bundle, "--data", string(d))
	return d
}

// wholeOlder checks that a directory has everything that the older one had.
func wholeOlder(t *testing.T, d datadir.Dir) {
	t.Helper()
	if out := succeeds(t, "project", "list", "--data", string(d)); !strings.Contains(out, "Demo shop") || !strings.Contains(out, "Second shop") {
		t.Errorf("projects:\n%s", out)
	}
	out := succeeds(t, "events", "tail", "--json", "--data", string(d))
	if n := strings.Count(out, "\n"); n != olderEvents {
		t.Errorf("%d events, want %d", n, olderEvents)
	}
	want := fmt.Sprintf("%d events up to position %[1]d, %d payments, 2 projects", olderEvents, olderPayments)
	if out := succeeds(t, "verify", "--data", string(d)); !strings.Contains(out, want) || !strings.Contains(out, "projections   ok") {
		t.Errorf("verify:\n%s", out)
	}
	succeeds(t, "replay", "--check", "--data", string(d))
	if out := succeeds(t, "balance", "--late-funds", "--data", string(d)); !strings.Contains(out, "1500.00 RUB") {
		t.Errorf("late funds:\n%s", out)
	}
}

// TestOlderDirectory opens the older directory and does what the message says.
// Its log is in an older format: a bundle that the version before exported takes
// the place of the log, and the old files are kept under other names.
func TestOlderDirectory(t *testing.T) {
	t.Parallel()
	d, bundle := older(t)
	refusedWith(t, d, d.Ledger(), "older payledger",
		"payledger export --format bundle --output LOG.tar --data "+string(d), "payledger restore LOG.tar --data "+string(d)+" --force")
	succeeds(t, "restore", bundle, "--data", string(d), "--force")
	wholeOlder(t, d)
	if kept, err := filepath.Glob(d.Ledger() + ".replaced-*"); err != nil || len(kept) != 1 {
		t.Errorf("%s is kept as %q, %v", d.Ledger(), kept, err)
	}
}

// refusedWith runs a command that has to refuse the directory, and looks for
// texts in what it says.
func refusedWith(t *testing.T, d datadir.Dir, texts ...string) {
	t.Helper()
	out, errs, code := command("project", "create", "New shop", "--data", string(d))
	if code != cli.ExitDirectory || out != "" {
		t.Errorf("exit code %d, %s", code, out)
	}
	for _, text := range texts {
		if !strings.Contains(errs, text) {
			t.Errorf("want %q in\n%s", text, errs)
		}
	}
}

// TestOlderBundle restores a bundle that the older version wrote: the way to
// take over a log in an older format.
func TestOlderBundle(t *testing.T) {
	t.Parallel()
	from, bundle := older(t)
	wholeOlder(t, restoredHere(t, from, bundle))
}

// TestOlderFiles puts each other file of the older directory beside the same log
// in today's format.
func TestOlderFiles(t *testing.T) {
	t.Parallel()
	from, bundle := older(t)
	for name, file := range map[string]func(datadir.Dir) string{
		"projections.db": datadir.Dir.Projections, // rebuilt
		"checkpoint":     datadir.Dir.Checkpoint,  // read
		"demo.json":      datadir.Dir.Demo,        // read
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := restoredHere(t, from, bundle)
			copyTo(t, file(from), file(d))
			wholeOlder(t, d)
		})
	}
}

// TestNewerFiles raises the format of each file that has one, as a newer version would. No command
// takes such a file for its own: of the log it says what to do, and leaves it as it is; the
// projections, which follow from the log, are rebuilt.
func TestNewerFiles(t *testing.T) {
	t.Parallel()
	from, bundle := older(t)
	made := restoredHere(t, from, bundle)
	wholeOlder(t, made)
	// newer is a copy of it in which one file has a newer format: the value of a key in the bucket meta.
	newer := func(t *testing.T, file func(datadir.Dir) string, from, to string) datadir.Dir {
		d := datadir.Dir(filepath.Join(t.TempDir(), "d"))
		if err := os.CopyFS(string(d), os.DirFS(string(made))); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(string(d), 0o700); err != nil {
			t.Fatal(err)
		}
		setFormat(t, file(d), from, to)
		return d
	}
	t.Run("ledger.db", func(t *testing.T) {
		t.Parallel()
		d := newer(t, datadir.Dir.Ledger, "payledger event log ", "payledger event log 99")
		before, err := os.ReadFile(d.Ledger())
		if err != nil {
			t.Fatal(err)
		}
		refusedWith(t, d, "newer payledger", "run the version that wrote it, or a newer one", d.Ledger())
		if after, err := os.ReadFile(d.Ledger()); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the file was changed: %v", err)
		}
	})
	t.Run("projections.db", func(t *testing.T) {
		t.Parallel()
		d := newer(t, datadir.Dir.Projections, `{"format":`, `{"format":99`)
		const rebuilds = "another version of the program; the next start rebuilds"
		if out := succeeds(t, "verify", "--data", string(d)); !strings.Contains(out, rebuilds) {
			t.Errorf("verify:\n%s", out)
		}
		if _, errs, code := command("replay", "--check", "--data", string(d)); code != cli.ExitDirectory || !strings.Contains(errs, rebuilds) {
			t.Errorf("replay: exit code %d\n%s", code, errs)
		}
		wholeOlder(t, d)
	})
}

// setFormat replaces the beginning of a value in the bucket meta, and the
// checksum at its end where it has one.
func setFormat(t *testing.T, file, from, to string) {
	t.Helper()
	db, err := bbolt.Open(file, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	err = db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return meta.ForEach(func(k, v []byte) error {
			if !bytes.HasPrefix(v, []byte(from)) {
				return nil
			}
			changed++
			value := append([]byte(to), v[len(from)+1:]...) // in place of one digit
			table := crc32.MakeTable(crc32.Castagnoli)
			sum := func(b []byte) uint32 {
				return crc32.Update(crc32.Update(crc32.Checksum([]byte("meta"), table), table, k), table, b)
			}
			if end := len(v) - 4; end > 0 && binary.BigEndian.Uint32(v[end:]) == sum(v[:end]) {
				end = len(value) - 4
				binary.BigEndian.PutUint32(value[end:], sum(value[:end]))
			}
			return meta.Put(k, value)
		})
	})
	if closeErr := db.Close(); err != nil || closeErr != nil || changed != 1 {
		t.Fatalf("%d values begin with %q: %v, %v", changed, from, err, closeErr)
	}
}
