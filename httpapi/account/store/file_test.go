package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
)

func openAt(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestTimesOfUseSurviveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "account.db")
	f := openAt(t, path)
	at := time.UnixMilli(1_795_169_730_123)
	if _, ok := f.LastUse("prj_1", "key_1"); ok {
		t.Error("an unknown key was used")
	}
	f.Use("prj_1", "key_1", at)
	f.Use("prj_1", "key_2", at.Add(time.Hour))
	f.Use("prj_2", "key_1", at.Add(2*time.Hour))
	f.Use("prj_1", "key_1", at.Add(time.Minute))
	f.Use("prj_1", "key_1", at.Add(time.Minute+999*time.Millisecond)) // the same, to a second
	f.Use("prj_1", "key_1", at)                                       // an older request that came late
	for range 2 {
		for key, want := range map[usedKey]time.Duration{
			{"prj_1", "key_1"}: time.Minute, {"prj_1", "key_2"}: time.Hour, {"prj_2", "key_1"}: 2 * time.Hour,
		} {
			if got, ok := f.LastUse(key.project, key.key); !ok || got != domain.InstantOf(at.Add(want)) {
				t.Errorf("%v: %v, want %v", key, got, at.Add(want))
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		f = openAt(t, path)
	}
}

func TestUseFromManySides(t *testing.T) {
	t.Parallel()
	f := openAt(t, filepath.Join(t.TempDir(), "account.db"))
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 1000 {
				f.Use("prj_1", "key_"+string(rune('a'+i%5)), time.UnixMilli(int64(i*8+n)*1000))
				if n == 0 && i%100 == 0 {
					if err := f.flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if got, ok := f.LastUse("prj_1", "key_e"); !ok || got < domain.Instant(7990*1000) {
		t.Error(got, ok)
	}
}

func TestADamagedFileIsMadeAnew(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "account.db")
	f := openAt(t, path)
	f.Use("prj_1", "key_1", time.UnixMilli(1e12))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"nothing like it": []byte(strings.Repeat("no bolt file ", 10_000)),
		"meta pages":      append(bytes.Repeat([]byte{0xff}, 8192), whole[8192:]...),
		"nothing":         {},
		"a page":          whole[:4096],
		"the meta pages":  whole[:8192],
		"three pages":     whole[:12288],
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f := openAt(t, path)
		if _, ok := f.LastUse("prj_1", "key_1"); ok {
			t.Errorf("%s: still known", name)
		}
		f.Use("prj_1", "key_1", time.UnixMilli(1e12))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestAFileIsMadeAnewWhileItIsUsed cuts the file off under those who use it.
// Nobody notices more than that sessions are gone; times of use are not.
func TestAFileIsMadeAnewWhileItIsUsed(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{0, 4096, 8192, 12288} {
		path := filepath.Join(t.TempDir(), "account.db")
		f := openAt(t, path)
		f.Use("prj_1", "key_1", time.UnixMilli(1e12))
		if err := f.flush(); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(time.Hour)
		if _, _, err := f.UseForm("before", end); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n := range 8 {
			all.Go(func() {
				for i := range 20 {
					token := fmt.Sprintf("%d %d", n, i)
					if _, _, err := f.UseForm(token, end); err != nil {
						t.Errorf("%d bytes: %v", size, err)
					}
				}
			})
		}
		all.Wait()
		if fresh, _, err := f.UseForm("before", end); !fresh || err != nil {
			t.Errorf("%d bytes: a form that was lost is known: %v", size, err)
		}
		if fresh, _, err := f.UseForm("7 19", end); fresh || err != nil {
			t.Errorf("%d bytes: a new form is not found: %v", size, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, ok := openAt(t, path).LastUse("prj_1", "key_1"); !ok {
			t.Errorf("%d bytes: the time of use is lost", size)
		}
	}
}

func TestUseIsWrittenEveryMinute(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "account.db")
	synctest.Test(t, func(t *testing.T) {
		f := openAt(t, path)
		var running sync.WaitGroup
		running.Go(func() { f.Run(t.Context()) })
		f.Use("prj_1", "key_1", time.Now())
		time.Sleep(flushEvery + time.Second)
		synctest.Wait()
		v, _ := f.used.Load(usedKey{"prj_1", "key_1"})
		if u := v.(*usedAt); u.saved != u.at.Load() {
			t.Error("not written")
		}
		t.Cleanup(running.Wait)
	})
}

func BenchmarkUse(b *testing.B) {
	f, err := Open(filepath.Join(b.TempDir(), "account.db"), zerolog.Nop())
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	at := time.Now()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			f.Use("prj_1", "key_1", at)
		}
	})
}
