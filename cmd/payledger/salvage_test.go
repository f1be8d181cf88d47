package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/salvage"
	"payledger/eventstore"
	"payledger/eventstore/translog"
	"payledger/notifier/health/healthtest"
)

// hashed has the SHA-256 of all files below a directory, and their times.
func hashed(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := e.Info()
		all[name] = fmt.Sprintf("%x %s %s", sha256.Sum256(b), info.ModTime(), info.Mode())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// salvaged runs salvage and checks that the sources are unchanged.
func salvaged(t *testing.T, want int, args ...string) (r salvage.Report) {
	t.Helper()
	before := make([]map[string]string, len(args))
	for i, name := range args {
		if _, err := os.Stat(name); err == nil {
			before[i] = hashed(t, name)
		}
	}
	out, errs, code := command(append([]string{"salvage", "--json"}, args...)...)
	if code != want {
		t.Fatalf("salvage %q: exit code %d, want %d\n%s%s", args, code, want, out, errs)
	}
	for i, b := range before {
		if b == nil {
			continue
		}
		after := hashed(t, args[i])
		for name, sum := range b {
			if after[name] != sum {
				t.Errorf("%s was %s, is %s", name, sum, after[name])
			}
		}
		if len(after) != len(b) {
			t.Errorf("%s had %d files, has %d", args[i], len(b), len(after))
		}
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	return r
}

// exported is the log of a file, as its events' lines.
func exportedLog(t *testing.T, h *shop, file string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range datadir.KeyFiles() {
		copyTo(t, datadir.Dir(h.data).File(name), datadir.Dir(dir).File(name))
	}
	if out, errs, code := command("restore", file, "--data", dir); code != 0 {
		t.Fatal(out, errs)
	}
	out, errs, code := command("export", "--data", dir)
	if code != 0 {
		t.Fatal(errs)
	}
	return out
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestSalvageDamage damages a log in each known way. With its copy in JetStream
// nothing is missing.
func TestSalvageDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	whole := ""
	for i, e := range events {
		whole += fmt.Sprintf(`{"position":%d,"event":%s}`+"\n", i+1, e)
	}
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 11))
	out := t.TempDir()
	key, err := d.ReadLogKey()
	if err != nil {
		t.Fatal(err)
	}
	log, ok := translog.LogOf(key.Origin())
	if !ok || !bytes.Contains(ledger, log[:]) {
		t.Fatalf("the ledger does not hold the log's id, %s", key.Origin())
	}
	for what, damage := range map[string]func([]byte) []byte{
		"as it was":  func(b []byte) []byte { return b },
		"empty":      func([]byte) []byte { return nil },
		"cut":        func(b []byte) []byte { return b[:len(b)/3] },
		"random":     func(b []byte) []byte { return randomBytes(random, len(b)) },
		"no states":  func(b []byte) []byte { clear(b[:8192]); return b },
		"page shift": func(b []byte) []byte { return append(make([]byte, 4096), b...) },
		"log id": func(b []byte) []byte {
			damaged := log
			damaged[7] ^= 0x21
			return bytes.ReplaceAll(b, log[:], damaged[:])
		},
		"bits": func(b []byte) []byte {
			for range len(b) / 50 {
				b[random.IntN(len(b))] ^= 1 << random.IntN(8)
			}
			return b
		},
		"pages": func(b []byte) []byte {
			for range len(b) / 4096 / 2 {
				clear(b[random.IntN(len(b)/4096)*4096:][:4096])
			}
			return b
		},
		"pages swapped": func(b []byte) []byte {
			for range len(b) / 4096 {
				x, y := b[random.IntN(len(b)/4096)*4096:][:4096], b[random.IntN(len(b)/4096)*4096:][:4096]
				swap := bytes.Clone(x)
				copy(x, y)
				copy(y, swap)
			}
			return b
		},
	} {
		if err := os.WriteFile(d.Ledger(), damage(bytes.Clone(ledger)), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(out, what)
		r := salvaged(t, 0, h.data, "--output", file)
		if !r.Whole || int(r.Events) != len(events) || int(r.Proved) != len(events) || len(r.Missing) > 0 {
			t.Errorf("%s: %+v", what, r)
		}
		if got := exportedLog(t, h, file); got != whole {
			t.Errorf("%s: the new log is not the old one", what)
		}
	}
	if left := unfinishedIn(t, out); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func randomBytes(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestSalvageBothDamaged damages log and JetStream: events that are in neither are
// named, and every readable one is in the log or in the rest.
func TestSalvageBothDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	blocks, err := filepath.Glob(filepath.Join(d.NATS(), "jetstream", "*", "streams", "EVENTS", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	block, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 12))
	out := t.TempDir()
	for round := range 6 {
		var spoiled []int
		for range 5 {
			spoiled = append(spoiled, random.IntN(len(events))+1)
		}
		damaged := bytes.Clone(block)
		damaged[random.IntN(len(block))] ^= 1 << random.IntN(8)
		if err := os.WriteFile(blocks[0], damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.Ledger(), ledger, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := spoil(d.Ledger(), func(at eventstore.Position) bool { return slices.Contains(spoiled, int(at)) }); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(out, fmt.Sprint(round))
		stdout, errs, code := command("salvage", h.data, "--output", file, "--partial", "--json")
		var r salvage.Report
		if err := json.Unmarshal([]byte(stdout), &r); err != nil {
			t.Fatalf("%d %s%s", code, stdout, errs)
		}
		missing := 0
		for _, f := range r.Missing {
			missing += int(f.Through-f.From) + 1
			for at := f.From; at <= f.Through; at++ {
				if !slices.Contains(spoiled, int(at)) {
					t.Errorf("position %d is %s, it was not damaged in the log", at, f.Why)
				}
			}
		}
		switch {
		case missing == 0 && code == 0 && r.Whole && int(r.Events) == len(events):
		case missing > 0 && code == cli.ExitVerify && int(r.Events)+int(r.RestEvents)+missing == len(events) && r.Written == file:
		default:
			t.Errorf("exit code %d, %d missing: %+v", code, missing, r)
		}
	}
}

// TestSalvageGivesAnswersAgain loses the whole log. JetStream's copy becomes a log
// in which idempotency keys still count.
func TestSalvageGivesAnswersAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, file := filepath.Join(dir, "d"), filepath.Join(dir, "saved")
	addr := healthtest.FreeAddress(t)
	runNATSServer(t, addr, t.TempDir())
	for name, flags := range map[string][]string{"embedded": nil, "external": {"--nats-url", "nats://" + addr}} {
		data := d + name
		s := start(t, append([]string{"demo", "--data", data, "--admin-listen", "127.0.0.1:0"}, flags...)...)
		answers := make(map[string]answer)
		for i := range 5 {
			key := fmt.Sprintf("00000000-0000-4000-8000-%012x", i)
			answers[key] = s.do(t, 201, "POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
		}
		eventually(t, "everything is on NATS", func() bool {
			return bytes.Contains(s.scrape(t), []byte("\npayledger_relay_lag_events 0\n"))
		})
		if code := s.stop(); code != 0 {
			t.Fatal(code)
		}
		if err := os.Remove(datadir.Dir(data).Ledger()); err != nil {
			t.Fatal(err)
		}
		r := salvaged(t, 0, append([]string{data, "--output", file + name}, flags...)...)
		if !r.Whole || len(r.Sources) != 1 || r.Sources[0].Kind != "events" {
			t.Errorf("%s: %+v", name, r)
		}
		if out, errs, code := command("restore", file+name, "--data", data); code != 0 {
			t.Fatal(out, errs)
		}
		again := start(t, append([]string{"serve", "--data", data, "--sandbox"}, flags...)...)
		again.ProjectID, again.APIKey = s.ProjectID, s.APIKey
		for key, first := range answers {
			a := again.do(t, 201, "POST", "/v1/payments", `{"amount":"7.77"}`, "Idempotency-Key", key)
			if a.Header.Get("Idempotent-Replayed") != "true" || !bytes.Equal(a.Body, first.Body) {
				t.Errorf("%s: key %s was answered with %s, now with %s", name, key, first.Body, a.Body)
			}
		}
		again.paid(t)
		if code := again.stop(); code != 0 {
			t.Error(code)
		}
	}
}

// TestSalvageKilled kills a salvage: its source is unchanged, and the next one
// removes what it left.
func TestSalvageKilled(t *testing.T) {
	t.Parallel()
	h, _, _ := ledgerWithEvents(t)
	out := t.TempDir()
	file := filepath.Join(out, "saved")
	before := hashed(t, h.data)
	killed(t, out, func() { _ = os.Remove(file) }, "salvage", h.data, "--output", file)
	if _, err := os.Stat(file); err == nil { // killed as it cleared up: what has the name is whole
		if out, errs, code := command("verify", file); code != 0 {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
	}
	salvaged(t, 0, h.data, "--output", file, "--force")
	if left := unfinishedIn(t, out); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	for name, sum := range hashed(t, h.data) {
		if before[name] != sum {
			t.Errorf("%s changed", name)
		}
	}
}
