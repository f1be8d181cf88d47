package main

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"payledger/eventstore/storetest"
)

// TestDiskFull fills the disk under load, to the last byte: writes answer 503, reads
// go on, and with room everything works again without a restart. The log, the
// projections and JetStream share the disk.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	disk := storetest.NewTmpfs(t, 64)
	h := newShop(t, filepath.Join(disk, "data"))
	h.frugal = true // paying waits for a provider that cannot be heard
	const minFree = 32 << 20
	args := []string{"--min-free", strconv.Itoa(minFree)}
	s := h.serve(t, args...)
	waitForRest := h.open(s, 4, 1<<16, 0)
	h.until(t, "payments are made", func() bool { return len(h.made) >= 50 })

	fill(t, disk, minFree/2) // below the floor, and room for what is under way
	h.until(t, "writes are refused", func() bool { return h.refused[503] > 0 })
	fill(t, disk, 0)
	full(t, h, s)
	if code := s.stop(); code != 0 {
		t.Errorf("stopping on a full disk: exit code %d\n%s", code, s.stderr)
	}
	waitForRest()

	// The server starts on a full disk and answers reads.
	s = h.serve(t, args...)
	full(t, h, s)
	if !strings.Contains(s.stderr.String(), "nothing new is recorded until there is room") {
		t.Errorf("it started on a full disk and did not say so:\n%s", s.stderr)
	}
	if wrongs := h.wrongs(t, s); len(wrongs) > 0 {
		t.Fatalf("on a full disk: %q", wrongs)
	}
	elsewhere := t.TempDir()
	for _, args := range [][]string{
		{"verify"}, {"export", "--format", "bundle", "--output", filepath.Join(elsewhere, "b.tar")}, {"backup", filepath.Join(elsewhere, "ledger")},
	} {
		if out, code := payledger(t, append(args, "--data", filepath.Join(disk, "data"))...); code != 0 {
			t.Errorf("%s on a full disk: %d %s", args[0], code, out)
		}
	}
	if out, code := payledger(t, "verify", filepath.Join(elsewhere, "b.tar")); code != 0 {
		t.Errorf("the bundle: %d %s", code, out)
	}
	removeAll(t, filepath.Join(disk, "filler"))
	eventually(t, "writes are taken again", func() bool {
		a, err := s.send("POST", "/v1/payments", `{"amount":"1"}`)
		if err != nil {
			t.Fatal(err)
		}
		return a.Status == 201
	})
	eventually(t, "everything is routed", func() bool {
		return strings.Contains(string(s.do(t, 200, "GET", "/v1/payments?status=created", "").Body), `"data":[]`)
	})
	h.sent = append(h.sent, "ffffffff-0000-4000-8000-000000000000") // for the one without a key
	h.intact(t, "once there is room", s)
	s.stops(t)
}

// TestDiskIsFilledFasterThanItIsWatched: others take the last byte of the disk at once,
// while payments are made and however low the floor is. The server refuses them, goes on
// reading, and takes payments again when there is room; none that was acknowledged is
// lost.
func TestDiskIsFilledFasterThanItIsWatched(t *testing.T) {
	t.Parallel()
	disk := storetest.NewTmpfs(t, 96)
	h := newShop(t, filepath.Join(disk, "data"))
	h.frugal = true
	args := []string{"--min-free", strconv.Itoa(1 << 20)}
	s := h.serve(t, args...)
	waitForRest := h.open(s, 8, 1<<16, 0)
	for range 3 {
		made := 0
		h.until(t, "payments are made", func() bool {
			if made == 0 {
				made = len(h.made)
			}
			return len(h.made) >= made+50
		})
		h.mu.Lock()
		before := h.refused[503]
		h.mu.Unlock()
		fill(t, disk, 0)
		h.until(t, "writes are refused", func() bool { return h.refused[503] > before+20 })
		full(t, h, s)
		removeAll(t, filepath.Join(disk, "filler"))
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.stderr)
	}
	waitForRest()
	s = h.serve(t, args...)
	h.intact(t, "after the disk was full", s)
	s.stops(t)
}

// TestRoutesOfAFullDisk: a full disk keeps no operator from giving a server other routes, again and
// again. Who did that is recorded once there is room; what has to be recorded first is refused at once.
func TestRoutesOfAFullDisk(t *testing.T) {
	t.Parallel()
	disk, file := storetest.NewTmpfs(t, 64), filepath.Join(t.TempDir(), "routes.json")
	dir := filepath.Join(disk, "data")
	rules := func(route string) {
		if err := os.WriteFile(file, []byte(`[{"route":"`+route+`"}]`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules("first")
	does(t, "init", "--data", dir)
	const minFree = 32 << 20
	s := start(t, "serve", "--data", dir, "--routes", file, "--min-free", strconv.Itoa(minFree))
	does(t, "nats", "consumer", "create", "reader", "--data", dir)
	loads := func(on string) int {
		return strings.Count(does(t, "audit", "--data", dir, "--json"), `"on":"`+on+`"`)
	}
	eventually(t, "the first routes are recorded", func() bool { return loads("start") == 1 })
	fill(t, disk, minFree/2)

	rules("second")
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	has := func(route string) func() bool {
		return func() bool { return strings.Contains(does(t, "routes", "list", "--data", dir), route) }
	}
	eventually(t, "the second routes are there", has("second"))
	rules("third")
	if out := does(t, "routes", "reload", "--data", dir, "--as", "olga"); !strings.Contains(out, "third") {
		t.Errorf("a reload after another: %s", out)
	}
	for _, args := range [][]string{{"routes", "pause", "third"}, {"nats", "consumer", "remove", "reader"}, {"nats", "consumer", "create", "other"}} {
		out, code := payledger(t, append(args, "--data", dir)...)
		if code != 5 || !strings.Contains(out, "full") || strings.Contains(out, "in time") || strings.Contains(out, "is removed;") {
			t.Errorf("%s: exit code %d\n%s", args, code, out)
		}
	}
	removeAll(t, filepath.Join(disk, "filler"))
	eventually(t, "the third routes are recorded", func() bool { return loads("command") == 1 })
	if out := does(t, "audit", "--data", dir); !strings.Contains(out, "operator:olga  routes.loaded") {
		t.Errorf("who loaded the third routes: %s", out)
	}
	does(t, "routes", "pause", "third", "--data", dir)
	does(t, "nats", "consumer", "remove", "reader", "--data", dir)
	s.stops(t)
}

// full checks a server on a full disk.
func full(t *testing.T, h *shop, s *server) {
	t.Helper()
	refused := s.do(t, 503, "POST", "/v1/payments", `{"amount":"1"}`)
	if refused.text(t, "code") != "unavailable" || refused.Header.Get("Retry-After") == "" {
		t.Errorf("a write on a full disk: %v %s", refused.Header, refused.Body)
	}
	if got := string(s.do(t, 200, "GET", "/readyz", "").Body); got == "ok\n" || !strings.Contains(got, "the disk with the event log is nearly full") {
		t.Errorf("/readyz on a full disk: %q", got)
	}
	h.mu.Lock()
	var id string
	for _, id = range h.made {
		break
	}
	h.mu.Unlock()
	s.do(t, 200, "GET", "/v1/payments/"+id, "")
	s.do(t, 200, "GET", "/v1/payments", "")
}

// fill writes a file until this many bytes are free.
func fill(t *testing.T, disk string, leave uint64) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(disk, "filler"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var st syscall.Statfs_t
		if err := syscall.Statfs(disk, &st); err != nil {
			t.Fatal(err)
		}
		free := st.Bavail * uint64(st.Bsize)
		if free <= leave {
			return
		}
		if _, err := f.Write(make([]byte, min(free-leave, 1<<20))); errors.Is(err, syscall.ENOSPC) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
