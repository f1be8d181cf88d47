package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestErasedBytesAreGone: a minute after payments were erased, under load and with a crash in the
// middle, no file of the data directory has a byte of what they were for; of all others it is there.
func TestErasedBytesAreGone(t *testing.T) {
	t.Parallel()
	const marked, erased = 200, 100
	dir := filepath.Join(t.TempDir(), "data")
	s := start(t, "demo", "--data", dir)
	made := inParallel(t, marked, 8, func(i int) (answer, error) {
		return s.send("POST", "/v1/payments", fmt.Sprintf(`{"amount":"1.00","description":"for Marked%03dzq","payload":{"who":"marked%03dzq@example.com"}}`, i, i))
	})
	ids := make([]string, marked)
	for i, a := range made {
		ids[i] = a.text(t, "id")
	}
	if there := marks(t, dir); len(there) != marked {
		t.Fatalf("%d of %d marks are in the files before", len(there), marked)
	}

	load := func(s *server) (stop func()) {
		var ended atomic.Bool
		var clients sync.WaitGroup
		for range 4 {
			clients.Go(func() {
				for i := 0; !ended.Load(); i++ {
					if _, err := s.send("POST", "/v1/payments", fmt.Sprintf(`{"amount":"2.00","description":"other %d"}`, i)); err != nil {
						return // killed
					}
				}
			})
		}
		return func() { ended.Store(true); clients.Wait() }
	}
	erase := func(s *server, i int) (answer, error) {
		return s.send("POST", "/v1/payments/"+ids[i]+"/erase", `{"reason":"asked for"}`)
	}
	stop := load(s)
	var done atomic.Int64
	var erasing sync.WaitGroup
	for worker := range 4 {
		erasing.Go(func() {
			for i := worker; i < erased; i += 4 {
				if _, err := erase(s, i); err != nil {
					return
				}
				done.Add(1)
			}
		})
	}
	eventually(t, "some are erased", func() bool { return done.Load() >= erased/3 })
	s.kill()
	erasing.Wait()
	stop()

	s = start(t, "demo", "--data", dir)
	stop = load(s)
	for i, a := range inParallel(t, erased, 8, func(i int) (answer, error) { return erase(s, i) }) {
		if a.Status != 200 || a.object(t)["description"] != nil {
			t.Errorf("payment %d: %d %s", i, a.Status, a.Body)
		}
	}
	stop() // what comes later would be written over what was erased
	deadline := time.Now().Add(time.Minute)
	left := func() (n int, there map[int][]string) {
		there = marks(t, dir)
		for i := range there {
			if i < erased {
				n++
			}
		}
		return n, there
	}
	n, there := left()
	for ; n > 0 && time.Now().Before(deadline); n, there = left() {
		time.Sleep(time.Second)
	}
	for i := range marked {
		if where := there[i]; (i < erased) != (len(where) == 0) {
			t.Errorf("mark %d of %d, of which the first %d are erased, is in %q", i, marked, erased, where)
		}
	}
	s.stops(t)
	if n, there := left(); n > 0 {
		t.Errorf("after the end %d are back: %v", n, there)
	}
	does(t, "verify", "--data", dir)
}

// marks are the numbers of the marks that the files of a directory have, and in which.
func marks(t *testing.T, dir string) map[int][]string {
	t.Helper()
	mark := regexp.MustCompile(`(?i)marked(\d{3})zq`)
	found := make(map[int][]string)
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil //nolint:nilerr // a file that is gone has nothing
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil //nolint:nilerr // likewise
		}
		seen := make(map[int]bool)
		for _, m := range mark.FindAllSubmatch(b, -1) {
			if n, _ := strconv.Atoi(string(m[1])); !seen[n] {
				seen[n] = true
				found[n] = append(found[n], e.Name())
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
