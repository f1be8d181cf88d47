package service

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"payledger/domain"
)

func TestTimesOfUseSurviveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key-times.json")
	k := openKeyTimes(path, zerolog.Nop())
	at := time.UnixMilli(1_795_169_730_123)
	if _, ok := k.LastUse("key_1"); ok {
		t.Error("an unknown key was used")
	}
	k.Use("key_1", at)
	k.Use("key_2", at.Add(time.Hour))
	k.Use("key_1", at.Add(time.Minute))
	k.Use("key_1", at.Add(time.Minute+999*time.Millisecond)) // the same, to a second
	k.Use("key_1", at)                                       // an older request that came late
	for range 2 {
		for key, want := range map[string]time.Duration{"key_1": time.Minute, "key_2": time.Hour} {
			if got, ok := k.LastUse(key); !ok || got != domain.InstantOf(at.Add(want)) {
				t.Errorf("%v: %v, want %v", key, got, at.Add(want))
			}
		}
		if err := k.flush(); err != nil {
			t.Fatal(err)
		}
		k = openKeyTimes(path, zerolog.Nop())
	}
}

// A clock that was ahead and was set back does not hide later uses.
func TestUseAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	k := openKeyTimes(filepath.Join(t.TempDir(), "key-times.json"), zerolog.Nop())
	at := time.UnixMilli(1_795_169_730_123)
	k.Use("key_1", at.Add(24*time.Hour))
	k.Use("key_1", at)
	if got, ok := k.LastUse("key_1"); !ok || got != domain.InstantOf(at) {
		t.Errorf("it was used last at %v, want %v", got, at)
	}
}

// A file that cannot be read is said once and replaced.
func TestADamagedFileOfTimes(t *testing.T) {
	t.Parallel()
	for _, content := range []string{"", "{", `{"key_1":"x"}`, `[]`, "\x00\x01"} {
		path := filepath.Join(t.TempDir(), "key-times.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		k := openKeyTimes(path, zerolog.New(&log))
		if n := bytes.Count(log.Bytes(), []byte("cannot be read")); n != 1 {
			t.Errorf("%q: said %d times", content, n)
		}
		k.Use("key_1", time.UnixMilli(1e12))
		if err := k.flush(); err != nil {
			t.Fatal(err)
		}
		if got, ok := openKeyTimes(path, zerolog.Nop()).LastUse("key_1"); !ok || got != 1e12 {
			t.Errorf("%q: %v, %v", content, got, ok)
		}
	}
}

func TestUseFromManySides(t *testing.T) {
	t.Parallel()
	k := openKeyTimes(filepath.Join(t.TempDir(), "key-times.json"), zerolog.Nop())
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 1000 {
				k.Use("key_"+string(rune('a'+i%5)), time.UnixMilli(int64(i*8+n)*1000))
				if n == 0 && i%500 == 0 {
					if err := k.flush(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	if got, ok := k.LastUse("key_e"); !ok || got < domain.Instant(7990*1000) {
		t.Error(got, ok)
	}
}

func TestUseIsWrittenEveryMinute(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key-times.json")
	synctest.Test(t, func(t *testing.T) {
		k := openKeyTimes(path, zerolog.Nop())
		var running sync.WaitGroup
		running.Go(func() { _ = k.Run(t.Context()) })
		k.Use("key_1", time.Now())
		time.Sleep(flushEvery + time.Second)
		synctest.Wait()
		if _, ok := openKeyTimes(path, zerolog.Nop()).LastUse("key_1"); !ok {
			t.Error("not written")
		}
		t.Cleanup(running.Wait)
	})
}
