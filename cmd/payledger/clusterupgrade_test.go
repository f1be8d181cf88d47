package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"

	"payledger/httpapi/wire"
)

// newerProgram builds this program as a later one would be: it writes refund.created as
// version 2, which today's cannot read.
func newerProgram(t *testing.T) (name string) {
	t.Helper()
	dir := t.TempDir()
	replaced := make(map[string]string)
	for file, edit := range map[string][2]string{
		"../../domain/events.go":     {"NewEventType(1, RefundCreated{", "NewEventType(2, RefundCreated{"},
		"../../eventstore/upcast.go": {"return []Upcaster{", "return []Upcaster{{Type: domain.TypeRefundCreated, From: 1, Lift: unchanged},"},
	} {
		src, err := os.ReadFile(file)
		if err != nil || bytes.Count(src, []byte(edit[0])) != 1 {
			t.Fatalf("%s: %q is not in it once: %v", file, edit[0], err)
		}
		with := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(with, bytes.Replace(src, []byte(edit[0]), []byte(edit[1]), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if file, err = filepath.Abs(file); err != nil {
			t.Fatal(err)
		}
		replaced[file] = with
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "payledger")
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", name, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the newer program: %v\n%s", err, out)
	}
	return name
}

// TestRollingUpgrade gives one node after the other a newer program, as the runbook says,
// while payments are created: none fails or is lost. What an older program cannot read is
// refused until all nodes have the newer one. A node that comes back with the older one
// stops in front of it, and goes on with the newer one.
func TestRollingUpgrade(t *testing.T) {
	inLong(t)
	t.Parallel()
	newer := newerProgram(t)
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	w := n.write(t)
	var paid []string // without a refund
	for i := range 3 {
		a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`)
		if !ok || a.Status != 201 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		paid = append(paid, a.text(t, "id"))
		n.pays(t, i, paid[i])
	}
	made := len(paid)
	refund := func(at, i int) answer {
		t.Helper()
		got, err := n.server(at).send("POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, paid[i]), "Idempotency-Key", fmt.Sprintf("00000000-0000-4000-9000-%012d", i))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	restart := func(i int, program string) {
		t.Helper()
		n.servers[i].stops(t)
		n.programs[i] = program
		n.start(t, i)
		eventually(t, "all nodes take part", func() bool {
			_, code := n.status(t, (i+1)%3)
			return code == 0
		})
		w.more(t, 20)
	}
	const a, b, c = 0, 1, 2
	n.becomes(t, a)
	restart(b, newer)

	// The newer program is the sequencer. It records what all nodes can read, also where
	// an older one made it.
	n.becomes(t, b)
	r := refund(b, 0)
	if r.Status != 503 || r.Header.Get("Retry-After") == "" || !strings.Contains(string(r.Body), "runs an older program, which cannot read what this would record (refund.created, version 2)") {
		t.Errorf("a refund by the newer program: %d %v %s", r.Status, r.Header, r.Body)
	}
	if r := refund(c, 1); r.Status != 201 {
		t.Errorf("a refund by an older program: %d %s", r.Status, r.Body)
	}
	for i := range nodeNames {
		all, _ := n.status(t, i)
		for j, node := range all {
			lacks := strings.Join(node.CannotRead, "; ")
			if want := map[bool]string{false: "refund.created, version 2"}[j == b]; lacks != want || node.Version == "" {
				t.Errorf("node %s says that node %s runs version %q and cannot read %q, want %q", nodeNames[i], node.Node, node.Version, lacks, want)
			}
		}
	}
	if out := does(t, "cluster", "status", "--data", n.dirs[b]); !strings.Contains(out, "Node a runs an older program than another node. Upgrade it;") || strings.Contains(out, "Node b runs an older") {
		t.Errorf("cluster status says\n%s", out)
	}
	// The older program is the sequencer, and refuses what it cannot read.
	n.becomes(t, c)
	if r := refund(b, 0); r.Status != 503 || !strings.Contains(string(r.Body), "runs an older program") {
		t.Errorf("a refund by the newer program through the older one: %d %s", r.Status, r.Body)
	}
	n.becomes(t, a)
	restart(c, newer)
	if r := refund(c, 0); r.Status != 503 || !strings.Contains(string(r.Body), "Node a of the server runs an older program") {
		t.Errorf("a refund while node a is to be upgraded: %d %s", r.Status, r.Body)
	}
	n.becomes(t, b)
	restart(a, newer)
	for i := range nodeNames {
		eventually(t, "node "+nodeNames[i]+" records what is new", func() bool { return refund(i, 0).Status == 201 })
	}

	// Back to the older program, which has not seen the last event.
	n.servers[c].stops(t)
	if r := refund(a, 2); r.Status != 201 {
		t.Errorf("a refund while node c is stopped: %d %s", r.Status, r.Body)
	}
	n.programs[c] = ""
	old := n.command(c)
	old.cmd.Stdout = old.stderr
	if err := old.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { old.cmd.Process.Kill() }) //nolint:errcheck // it may be gone already
	eventually(t, "node c stops", func() bool {
		all, code := n.status(t, a)
		return code == 1 && all[c].Role == wire.RoleStopped && strings.Contains(all[c].Trouble, "this program is too old to read the event at position") &&
			strings.Contains(all[c].Trouble, "(refund.created, version 2): install the newer one that the other nodes run")
	})
	old.cmd.Process.Signal(syscall.SIGTERM) //nolint:errcheck // Wait tells
	_ = old.cmd.Wait()
	n.programs[c] = newer
	n.start(t, c)
	payments := made + w.end()
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
	events := does(t, "events", "tail", "--json", "--data", n.dirs[a])
	for version, want := range []int{1: 1, 2: 2} {
		if got := strings.Count(events, fmt.Sprintf(`"type":"refund.created","version":%d,`, version)); got != want {
			t.Errorf("%d refunds of version %d, want %d", got, version, want)
		}
	}
}
