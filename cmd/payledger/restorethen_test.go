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
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/restore"
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

// unchanged checks that the files below a directory are those that were hashed.
func unchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := hashed(t, dir)
	for name, sum := range before {
		if after[name] != sum {
			t.Errorf("%s was %s, is %s", name, sum, after[name])
		}
	}
	if len(after) != len(before) {
		t.Errorf("%s had %d files, has %d", dir, len(before), len(after))
	}
}

// restored runs restore and returns its report.
func restored(t *testing.T, want int, args ...string) (r restore.Report, stderr string) {
	t.Helper()
	out, errs, code := command(append([]string{"restore", "--json"}, args...)...)
	if code != want {
		t.Fatalf("restore %q: exit code %d, want %d\n%s%s", args, code, want, out, errs)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil && out != "" {
		t.Fatalf("%s: %v", out, err)
	}
	return r, errs
}

// linesOf are the events as lines of an export.
func linesOf(events []string) (all []string) {
	for i, e := range events {
		all = append(all, fmt.Sprintf(`{"position":%d,"event":%s}`+"\n", i+1, e))
	}
	return all
}

// holds checks that the directory's log is these lines.
func holds(t *testing.T, data, want string) {
	t.Helper()
	out, errs, code := command("export", "--data", data)
	if code != 0 || out != want {
		t.Errorf("exit code %d, the log is not as it should be: %s", code, errs)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, to, b)
}

func write(t *testing.T, name string, b []byte) {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRestoreThenDamage damages a log in each known way. With its copy in JetStream
// nothing is missing, and the damaged file stays beside the new one.
func TestRestoreThenDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	whole := strings.Join(linesOf(events), "")
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 11))
	key, err := d.ReadLogKey()
	if err != nil {
		t.Fatal(err)
	}
	log, ok := translog.LogOf(key.Origin())
	if !ok || !bytes.Contains(ledger, log[:]) {
		t.Fatalf("the ledger does not hold the log's id, %s", key.Origin())
	}
	before := hashed(t, d.NATS())
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
		damaged := damage(bytes.Clone(ledger))
		write(t, d.Ledger(), damaged)
		r, _ := restored(t, 0, d.Ledger(), "--then", "EVENTS", "--data", h.data)
		if int(r.Events) != len(events) || int(r.Proved) != len(events) || len(r.Findings) > 0 {
			t.Errorf("%s: %+v", what, r)
		}
		holds(t, h.data, whole)
		if len(r.Kept) == 0 || !slices.ContainsFunc(r.Kept, func(name string) bool {
			b, err := os.ReadFile(name)
			return err == nil && bytes.Equal(b, damaged)
		}) {
			t.Errorf("%s: the damaged file is gone: %q", what, r.Kept)
		}
	}
	unchanged(t, d.NATS(), before)
	if left := unfinishedIn(t, h.data); len(left) > 0 {
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

// TestRestoreThenBothDamaged damages log and JetStream: events that are in neither
// are named, and with --until every readable one is in the log or in the rest.
func TestRestoreThenBothDamaged(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	lines := linesOf(events)
	blocks, err := filepath.Glob(filepath.Join(d.NATS(), "jetstream", "*", "streams", "EVENTS", "msgs", "*.blk"))
	if err != nil || len(blocks) == 0 {
		t.Fatal(blocks, err)
	}
	block, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	checkpoint, err := os.ReadFile(d.Checkpoint())
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 12))
	for range 6 {
		spoiled := make(map[int]bool)
		for range 5 {
			spoiled[random.IntN(len(events))+1] = true
		}
		damaged := bytes.Clone(block)
		damaged[random.IntN(len(block))] ^= 1 << random.IntN(8)
		write(t, blocks[0], damaged)
		write(t, d.Ledger(), ledger)
		write(t, d.Checkpoint(), checkpoint)
		if err := spoil(d.Ledger(), func(at eventstore.Position) bool { return spoiled[int(at)] }); err != nil {
			t.Fatal(err)
		}
		// With the checkpoint among what is given, it tells of a missing end.
		args := []string{d.Ledger(), "--then", "EVENTS", "--data", h.data, "--checkpoint", d.Checkpoint()}
		out, errs, code := command(append([]string{"restore", "--json"}, args...)...)
		var r restore.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%d %s%s", code, out, errs)
		}
		missing := make(map[int]bool)
		for _, f := range r.Findings {
			for at := f.Position; at <= f.Through && at > 0; at++ {
				missing[int(at)] = true
				if !spoiled[int(at)] {
					t.Errorf("%s, but it was not damaged in the log", f)
				}
			}
		}
		if len(missing) == 0 {
			if code != 0 || int(r.Events) != len(events) || int(r.Proved) != len(events) {
				t.Errorf("exit code %d: %+v", code, r)
			}
			holds(t, h.data, strings.Join(lines, ""))
			continue
		}
		first := int(r.Findings[0].Position)
		if code != cli.ExitDirectory || !strings.Contains(errs, fmt.Sprintf("--until %d ", first-1)) {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if first == 1 {
			continue
		}
		r, _ = restored(t, 0, append(args, "--until", fmt.Sprint(first-1), "--force")...)
		holds(t, h.data, strings.Join(lines[:first-1], ""))
		var rest string
		for _, name := range r.Kept {
			if strings.HasSuffix(name, ".rest.jsonl") {
				rest = readFile(t, name)
			}
		}
		for at := first; at <= len(lines); at++ {
			if strings.Contains(rest, lines[at-1]) == missing[at] {
				t.Errorf("position %d: missing: %v, in the rest: %v", at, missing[at], !missing[at])
			}
		}
	}
}

// TestRestoreThenAnySources makes backups and exports of a log with holes, damage and
// altered events in them. What is restored is the log and nothing else; else the
// message names a position that no source has, or that one has altered.
func TestRestoreThenAnySources(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d, lines := datadir.Dir(h.data), linesOf(events)
	whole := strings.Join(lines, "")
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 13))
	outcomes := make(map[string]int)
	for range rounds(25, 100) {
		dir, at := t.TempDir(), random.IntN(len(events)-2)+1
		have := make([]bool, len(events)+1) // by position: some source has it as it was
		altered := false
		args := []string{"--data", filepath.Join(dir, "data")}
		for i := range random.IntN(3) + 1 {
			name := filepath.Join(dir, fmt.Sprint(i))
			from, to := random.IntN(at), len(events)
			if random.IntN(2) == 0 {
				to = random.IntN(len(events))
			}
			if random.IntN(2) == 0 {
				from = 0
			}
			lost := func(p int) bool { return p <= from || p > to || (p%11 == at%11 && random.IntN(4) == 0) }
			gone := make(map[int]bool)
			for p := 1; p <= len(events); p++ {
				gone[p] = lost(p)
				have[p] = have[p] || !gone[p]
			}
			if random.IntN(2) == 0 { // a ledger.db
				write(t, name, ledger)
				if err := spoil(name, func(p eventstore.Position) bool { return gone[int(p)] }); err != nil {
					t.Fatal(err)
				}
			} else {
				var b strings.Builder
				for p := 1; p <= len(events); p++ {
					line := lines[p-1]
					if p == at && random.IntN(3) == 0 && !gone[p] {
						line, altered = strings.Replace(line, `"version":`, `"version": `, 1), true
					}
					if !gone[p] {
						b.WriteString(line)
					}
				}
				if b.Len() == 0 {
					b.WriteString(lines[0])
					have[1] = true
				}
				write(t, name, []byte(b.String()))
			}
			if i > 0 {
				args = append(args, "--then")
			}
			args = append(args, name)
		}
		missing := 0
		for p := len(events); p > 0; p-- {
			if !have[p] {
				missing = p
			}
		}
		if !strings.Contains(strings.Join(args, " "), "--then") {
			args = append(args, "--then", args[2])
		}
		if err := os.Mkdir(args[1], 0o700); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{d.MasterKey(), d.LogKey()} {
			copyTo(t, name, filepath.Join(args[1], filepath.Base(name)))
		}
		args = append(args, "--checkpoint", d.Checkpoint())
		_, errs, code := command(append([]string{"restore"}, args...)...)
		switch {
		case code == 0 && missing == 0 && !altered:
			outcomes["whole"]++
			holds(t, args[1], whole)
		case code == cli.ExitDirectory && missing > 0:
			outcomes["missing"]++
			if !strings.Contains(errs, fmt.Sprintf("position %d:", missing)) && !strings.Contains(errs, fmt.Sprintf("positions %d to", missing)) && !altered {
				t.Errorf("position %d is missing: %s", missing, errs)
			}
		case code == cli.ExitDirectory && altered && (strings.Contains(errs, "have different events there") || strings.Contains(errs, "wrong_root")):
			outcomes["altered"]++
		default:
			t.Errorf("%q: exit code %d, missing %d, altered %v: %s", args, code, missing, altered, errs)
		}
		if _, err := os.Lstat(filepath.Join(args[1], "ledger.db")); code != 0 && err == nil {
			t.Errorf("%q: refused, but there is a log", args)
		}
	}
	for _, o := range []string{"whole", "missing", "altered"} {
		if outcomes[o] == 0 {
			t.Errorf("no round ended with %q: %v", o, outcomes)
		}
	}
}

// TestRestoreThenGivesAnswersAgain loses the whole log. JetStream's copy becomes a
// log in which idempotency keys still count.
func TestRestoreThenGivesAnswersAgain(t *testing.T) {
	t.Parallel()
	d := filepath.Join(t.TempDir(), "d")
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
		if r, _ := restored(t, 0, append([]string{"EVENTS", "--data", data}, flags...)...); r.Proved != r.Events || r.Events == 0 {
			t.Errorf("%s: %+v", name, r)
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

// TestRestoreThenKilled kills a restore from several sources: they are unchanged,
// and the next one removes what it left.
func TestRestoreThenKilled(t *testing.T) {
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	out, fresh := t.TempDir(), filepath.Join(t.TempDir(), "fresh")
	write(t, filepath.Join(out, "hurt"), append(make([]byte, 8192), ledger[8192:]...))
	if err := os.Mkdir(fresh, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{d.MasterKey(), d.LogKey(), d.Checkpoint()} {
		copyTo(t, name, filepath.Join(fresh, filepath.Base(name)))
	}
	before, damaged := hashed(t, h.data), hashed(t, out)
	args := []string{"restore", filepath.Join(out, "hurt"), "--then", d.NATS(), "--data", fresh}
	killed(t, fresh, func() { _ = os.Remove(datadir.Dir(fresh).Ledger()) }, args...)
	if _, err := os.Stat(datadir.Dir(fresh).Ledger()); err == nil { // killed as it cleared up: what has the name is whole
		if out, errs, code := command("verify", datadir.Dir(fresh).Ledger()); code != 0 {
			t.Errorf("exit code %d\n%s%s", code, out, errs)
		}
	}
	if r, _ := restored(t, 0, args[1:]...); int(r.Events) != len(events) {
		t.Errorf("%+v", r)
	}
	if left := unfinishedIn(t, fresh); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	unchanged(t, h.data, before)
	unchanged(t, out, damaged)
}

// TestStoppedRestoreIsNotRecorded: a restore that was stopped before its log took the place of
// the other has not happened.
func TestStoppedRestoreIsNotRecorded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, monday := datadir.Dir(filepath.Join(dir, "data")), filepath.Join(dir, "monday")
	serve := func() *server { return start(t, "demo", "--data", string(d), "--nats-listen", "127.0.0.1:0") }
	acts := func() (n int) {
		for _, a := range actsOf(t, string(d)) {
			if a.Type == "log.restored" {
				n++
			}
		}
		return n
	}
	noted := func() bool { _, err := os.Stat(d.Restored()); return err == nil }
	s := serve()
	s.paid(t)
	if out, code := payledger(t, "backup", monday, "--data", string(d)); code != 0 {
		t.Fatal(out)
	}
	s.paid(t)
	s.stops(t)
	for _, name := range []string{d.Ledger(), d.Checkpoint()} {
		copyTo(t, name, filepath.Join(dir, filepath.Base(name)))
	}
	restored(t, 0, monday, "--data", string(d), "--force")
	for _, name := range []string{d.Ledger(), d.Checkpoint()} {
		copyTo(t, filepath.Join(dir, filepath.Base(name)), name)
	}
	s = serve()
	eventually(t, "the note is gone", func() bool { return !noted() })
	s.paid(t)
	if n := acts(); n != 0 {
		t.Errorf("%d restores are recorded, and none happened", n)
	}
	s.stops(t)
	restored(t, 0, monday, "--data", string(d), "--force")
	serve()
	eventually(t, "the note is gone", func() bool { return !noted() })
	if n := acts(); n != 1 {
		t.Errorf("%d restores are recorded, want 1", n)
	}
}
