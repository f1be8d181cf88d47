package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/bolt"
)

// ledgerWithEvents makes a data directory with some 60 events. It returns the
// ledger's bytes and the stored events, by position.
func ledgerWithEvents(t *testing.T) (h *shop, ledger []byte, events []string) {
	t.Helper()
	h = newShop(t, filepath.Join(t.TempDir(), "data"))
	s := h.serve(t)
	h.open(s, 2, 6, 0)()
	eventually(t, "everything is routed", func() bool {
		return strings.Contains(string(s.do(t, 200, "GET", "/v1/payments?status=created", "").Body), `"data":[]`)
	})
	s.stops(t)
	out, code := payledger(t, "events", "tail", "--data", h.data, "--json")
	if code != 0 {
		t.Fatal(out)
	}
	for line := range strings.Lines(out) {
		var e struct{ Event json.RawMessage }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, string(e.Event))
	}
	ledger, err := os.ReadFile(datadir.Dir(h.data).Ledger())
	if err != nil {
		t.Fatal(err)
	}
	return h, ledger, events
}

// command runs a command in this process.
func command(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = run(context.Background(), args, &out, &errs)
	return out.String(), errs.String(), code
}

// The form of a record in the file: the offsets of its format and of the event id,
// and the least number of its bytes.
const (
	recordFormat = 4
	recordID     = 6
	recordLeast  = 64
)

// recordsOf are the places of the event's record in the bytes of a ledger. Free
// pages may hold older copies.
func recordsOf(ledger []byte, event domain.ID) (all []int) {
	for at := 0; ; at++ {
		i := bytes.Index(ledger[at:], event[:])
		if i < 0 {
			return all
		}
		at += i
		if record := at - recordID; ledger[record+recordFormat] == 3 { // the id stands elsewhere too
			all = append(all, record)
		}
	}
}

// TestFlippedBits flips single bits in stored events. Reading reports the position
// and shows nothing from there on. A server that must read the event does not start;
// another one never shows it.
func TestFlippedBits(t *testing.T) {
	if testing.Short() {
		t.Skip("one command after the other")
	}
	t.Parallel()
	h, ledger, events := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	random := rand.New(rand.NewPCG(uint64(len(ledger)), 7))
	for round := range 12 {
		at := random.IntN(len(events) - 1)
		damaged := bytes.Clone(ledger)
		var e struct{ ID domain.ID }
		if err := json.Unmarshal([]byte(events[at]), &e); err != nil {
			t.Fatal(err)
		}
		place, bit := -1, byte(1)<<random.IntN(8)
		for _, record := range recordsOf(damaged, e.ID) {
			if place < 0 {
				place = random.IntN(recordLeast)
			}
			damaged[record+place] ^= bit
		}
		if place < 0 {
			t.Fatalf("event %d is not in the file", at+1)
		}
		if err := os.WriteFile(d.Ledger(), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("bit %#x of byte %d of event %d", bit, place, at+1)
		position := fmt.Sprintf("position %d ", at+1)
		out, errs, code := command("events", "tail", "--data", h.data, "--json")
		if code == 0 || strings.Count(out, "\n") != at || !strings.Contains(errs, fmt.Sprintf("after position %d:", at)) {
			t.Errorf("%s: events tail shows %d events, exit code %d: %s", what, strings.Count(out, "\n"), code, errs)
		}
		if out, errs, code := command("verify", "--data", h.data); code == 0 || !strings.Contains(out+errs, fmt.Sprintf("position %d", at+1)) {
			t.Errorf("%s: verify: exit code %d: %s%s", what, code, out, errs)
		}
		if round%4 == 0 {
			h.damaged(t, what, position, events[at])
			kept, err := os.ReadFile(d.Projections())
			if err != nil {
				t.Fatal(err)
			}
			removeAll(t, d.Projections())
			if out, code := payledger(t, h.args("--listen", "127.0.0.1:0")...); code != cli.ExitDirectory || !strings.Contains(out, position) {
				t.Errorf("%s: a start that reads it: exit code %d: %s", what, code, out)
			}
			if err := os.WriteFile(d.Projections(), kept, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(d.Ledger(), ledger, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, errs, code := command("events", "tail", "--data", h.data, "--json"); code != 0 || strings.Count(out, "\n") != len(events) {
		t.Errorf("the whole file: exit code %d: %s", code, errs)
	}
}

// damaged runs a server on a ledger whose damaged event is not read at the start.
// The server may end and name the position; it never shows the event.
func (h *shop) damaged(t *testing.T, what, position, event string) {
	t.Helper()
	var e struct{ Kind, Stream string }
	if err := json.Unmarshal([]byte(event), &e); err != nil {
		t.Fatal(err)
	}
	s, err := startServer("127.0.0.1:0", h.args()...)
	if err != nil {
		if !strings.Contains(err.Error(), position) {
			t.Errorf("%s: %v", what, err)
		}
		return
	}
	defer s.kill()
	s.ProjectID, s.APIKey = h.project, h.key
	if e.Kind != "payment" {
		return
	}
	a, err := s.send("GET", "/v1/payments/"+e.Stream+"/events", "")
	if err != nil {
		<-s.exited
		if !strings.Contains(s.stderr.String(), position) || s.cmd.ProcessState.ExitCode() != cli.ExitDirectory {
			t.Errorf("%s: the server ended: %s\n%s", what, s.cmd.ProcessState, s.stderr)
		}
		return
	}
	if a.Status != 500 || member(a, "code") != "internal_error" {
		t.Errorf("%s: GET of its payment's events: %d %s", what, a.Status, a.Body)
	}
}

// TestUnusableLedgers opens ledgers that are truncated, empty, of another kind, or
// in use: exit code and message say so, and the file is not changed.
func TestUnusableLedgers(t *testing.T) {
	t.Parallel()
	h, ledger, _ := ledgerWithEvents(t)
	d := datadir.Dir(h.data)
	used := len(bytes.TrimRight(ledger, "\x00"))
	contents := map[string][]byte{
		"empty": {}, "a text": []byte("not a ledger"), "zeros": make([]byte, 1<<16), "a key": []byte("1 " + strings.Repeat("ab", 32)),
	}
	for _, size := range []int{1, 16, 80, 511, 4095, 4096, 4097, 8191, 8192, 12288, used / 2, used/4096*4096 - 1, used / 4096 * 4096} {
		contents[fmt.Sprintf("cut off at %d of %d", size, used)] = ledger[:size]
	}
	for what, content := range contents {
		if err := os.WriteFile(d.Ledger(), content, 0o600); err != nil {
			t.Fatal(err)
		}
		// This server needs its own process: the bound of its shutdown holds until
		// the process ends.
		if said, code := payledger(t, h.args("--listen", "127.0.0.1:0")...); code != cli.ExitDirectory || !strings.Contains(said, d.Ledger()) {
			t.Errorf("%s: serve: exit code %d, %q", what, code, said)
		}
		for _, args := range [][]string{{"events", "tail", "--data", h.data}, {"project", "list", "--data", h.data}} {
			out, errs, code := command(args...)
			if code != cli.ExitDirectory || out != "" || !strings.Contains(errs, d.Ledger()) {
				t.Errorf("%s: %s: exit code %d, %q %q", what, args[0], code, out, errs)
			}
		}
		if after, err := os.ReadFile(d.Ledger()); err != nil || sha256.Sum256(after) != sha256.Sum256(content) {
			t.Errorf("%s: the file was changed: %v", what, err)
		}
	}
	if err := os.WriteFile(d.Ledger(), ledger, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := bolt.Open(d.Ledger(), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if errs, code := payledger(t, h.args("--listen", "127.0.0.1:0")...); code != cli.ExitInUse || !strings.Contains(errs, h.data) {
		t.Errorf("in use: exit code %d, %s", code, errs)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if _, errs, code := command("events", "tail", "--data", h.data); code != 0 {
		t.Errorf("the whole file: exit code %d, %s", code, errs)
	}
}

// TestInterruptedCommandBlamesNothing: who ends a command reads that, and neither that a file is damaged nor that a
// server failed.
func TestInterruptedCommandBlamesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	does(t, "init", "--data", data)
	does(t, "project", "create", "Shop", "--data", data)
	does(t, "backup", filepath.Join(dir, "monday"), "--data", data)
	asked := errors.New("interrupt signal received")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(asked)
	for _, args := range [][]string{
		{"backup", filepath.Join(dir, "tuesday")}, {"payments", "list"}, {"verify"}, {"export"}, {"restore", filepath.Join(dir, "monday")}, {"replay", "--check"},
	} {
		var errs bytes.Buffer
		code := run(ctx, append(args, "--data", data), io.Discard, &errs)
		if code != cli.ExitFailed || errs.String() != "payledger: interrupt signal received\n" {
			t.Errorf("%s: exit code %d\n%s", args, code, &errs)
		}
	}
}
