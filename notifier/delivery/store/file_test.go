package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore/memory"
)

// options are of a file in an empty directory.
func options(t *testing.T) (o Options, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	dir := t.TempDir()
	return Options{
		Path: filepath.Join(dir, "lanes.db"), Mark: filepath.Join(dir, "lanes.mark"), LogID: domain.ID{1}, Store: memory.New(),
		Now: time.Now, Log: zerolog.New(log),
	}, log
}

// TestFirstFileOfACrash: a fresh file whose mark was not written yet is
// accepted.
func TestFirstFileOfACrash(t *testing.T) {
	t.Parallel()
	o, log := options(t)
	before := newEpoch()
	if err := writeMark(o.Mark, before); err != nil {
		t.Fatal(err)
	}
	if err := writeFresh(o.Path, o.LogID, newEpoch(), before, 0, 0); err != nil {
		t.Fatal(err)
	}
	f, err := Open(t.Context(), o)
	if err != nil || log.Len() > 0 {
		t.Fatalf("%v; logged: %s", err, log)
	}
	if err := f.Close(0); err != nil {
		t.Fatal(err)
	}
}

// TestOtherFormats: files of newer and of older versions are refused with what to
// do, and left as they are.
func TestOtherFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		fmt.Sprint(formatName, formatVersion+1): "written by a newer payledger (format 7; this one knows 6): start that one, or move the file away",
		formatName + "4":                        "written by an older payledger (format 4; this one knows 6): let that one deliver what is pending, then move the file away",
	} {
		o, log := options(t)
		f, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(0); err != nil {
			t.Fatal(err)
		}
		setFormat(t, o.Path, format)
		before, err := os.ReadFile(o.Path)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", format, err)
			}
		}
		if after, err := os.ReadFile(o.Path); err != nil || !bytes.Equal(before, after) || log.Len() > 0 {
			t.Errorf("%s: the file was touched (%v); logged: %s", format, err, log)
		}
	}
}

// TestOlderFormatIsRead: a file of the version before goes on, and is of this
// version from then on. Its endpoints have no last failure.
func TestOlderFormatIsRead(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	f, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(0); err != nil {
		t.Fatal(err)
	}
	setFormat(t, o.Path, formatName+"5")
	for range 2 {
		if f, err = Open(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		err := f.View(func(x Tables) error {
			if x.RequestsUnknown() {
				t.Error("requests are unknown")
			}
			return nil
		})
		if err := errors.Join(err, f.Close(0)); err != nil {
			t.Fatal(err)
		}
	}
	key, want := []byte("key"), Tally{Failures: 3, FailingSince: 7, Away: time.Second}
	v := appendTally(nil, key, "prj_1", "we_1", want)
	before := sealed(key, v[:len(v)-4-len(want.LastFailure)]) // as version 5 wrote it
	if _, id, got, err := parseTally(key, before); err != nil || id != "we_1" || got != want {
		t.Errorf("%s %+v, %v", id, got, err)
	}
}

func setFormat(t *testing.T, path, format string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = db.Update(func(btx *bbolt.Tx) error {
		return btx.Bucket([]byte(bucketMeta)).Put([]byte(keyFormat), []byte(format))
	})
	if err != nil {
		t.Fatal(err)
	}
}
