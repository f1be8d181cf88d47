package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// opened reads a signed checkpoint without any code of ours.
func opened(t testing.TB, signed []byte, verifierKey string) tlog.Tree {
	t.Helper()
	v, err := note.NewVerifier(verifierKey)
	if err != nil {
		t.Fatal(err)
	}
	n, err := note.Open(signed, note.VerifierList(v))
	if err != nil {
		t.Fatalf("%v in %q", err, signed)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != v.Name() {
		t.Fatalf("checkpoint %q", n.Text)
	}
	var tree tlog.Tree
	if _, err := fmt.Sscan(lines[1], &tree.N); err != nil {
		t.Fatal(err)
	}
	if tree.Hash, err = tlog.ParseHash(lines[2]); err != nil {
		t.Fatal(err)
	}
	return tree
}

// verifierOf is the key that the command prints.
func verifierOf(t testing.TB, data string) string {
	t.Helper()
	out, err := exec.Command("payledger", "log", "key", "--data", data).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// TestAuditorFollowsTheLog compares the real program with checkpoints of every
// moment, across crashes and restarts: each later one must prove that it continues
// each earlier one, and the last one contains every event.
func TestAuditorFollowsTheLog(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, "demo", "--data", data)
	key := verifierOf(t, data)
	if s.VerifierKey != key {
		t.Errorf("the demo prints the verifier key %q, log key %q", s.VerifierKey, key)
	}
	var trees []tlog.Tree
	for i := range 6 {
		s.do(t, 201, "POST", "/v1/payments", `{"amount":"10.00"}`)
		trees = append(trees, opened(t, s.do(t, 200, "GET", "/v1/log/checkpoint", "").Body, key))
		switch i {
		case 1, 3:
			s.kill()
			s = start(t, "demo", "--data", data)
		case 4:
			s.stops(t)
			signed, err := os.ReadFile(filepath.Join(data, "checkpoint"))
			if err != nil {
				t.Fatal(err)
			}
			trees = append(trees, opened(t, signed, key))
			s = start(t, "demo", "--data", data)
		}
	}
	last := opened(t, s.do(t, 200, "GET", "/v1/log/checkpoint", "").Body, key)
	for _, older := range trees {
		var proof struct{ Hashes tlog.TreeProof }
		if err := json.Unmarshal(s.do(t, 200, "GET", fmt.Sprintf("/v1/log/proof/consistency?from=%d&to=%d", older.N, last.N), "").Body, &proof); err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckTree(proof.Hashes, last.N, last.Hash, older.N, older.Hash); err != nil {
			t.Errorf("the log of %d does not go on from that of %d: %v", last.N, older.N, err)
		}
	}
	out, err := exec.Command("payledger", "events", "tail", "--data", data, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := int64(0)
	for line := range bytes.Lines(out) {
		var e struct {
			Position int64
			Event    json.RawMessage
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if seen++; e.Position > last.N {
			continue
		}
		var proof struct{ Hashes tlog.RecordProof }
		if err := json.Unmarshal(s.do(t, 200, "GET", fmt.Sprintf("/v1/log/proof/inclusion?position=%d&size=%d", e.Position, last.N), "").Body, &proof); err != nil {
			t.Fatal(err)
		}
		if err := tlog.CheckRecord(proof.Hashes, last.N, last.Hash, e.Position-1, tlog.RecordHash(e.Event)); err != nil {
			t.Errorf("position %d: %v", e.Position, err)
		}
	}
	if seen < last.N {
		t.Errorf("%d events were listed, the checkpoint covers %d", seen, last.N)
	}
}

// TestCheckpointsComeByThemselves: within about a second after an event the file and
// NATS have a checkpoint that covers it, without any request.
func TestCheckpointsComeByThemselves(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "d")
	s := start(t, "demo", "--data", data, "--nats-listen", "127.0.0.1:0")
	key := verifierOf(t, data)
	var credentials struct {
		Subscriber struct{ User, Password string }
	}
	b, err := os.ReadFile(filepath.Join(data, "nats-credentials.json"))
	if err == nil {
		err = json.Unmarshal(b, &credentials)
	}
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect("nats://"+s.NATSAddress, nats.UserInfo(credentials.Subscriber.User, credentials.Subscriber.Password),
		nats.CustomInboxPrefix("_INBOX_subscriber"), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	live, err := nc.SubscribeSync("payledger.v1.checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	read := func() tlog.Tree {
		signed, err := os.ReadFile(filepath.Join(data, "checkpoint"))
		if errors.Is(err, os.ErrNotExist) {
			return tlog.Tree{}
		}
		if err != nil {
			t.Fatal(err)
		}
		return opened(t, signed, key)
	}
	before := read()
	s.do(t, 201, "POST", "/v1/payments", `{"amount":"10.00"}`)
	eventually(t, "a checkpoint is written", func() bool { return read().N > before.N })
	for {
		m, err := live.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		if opened(t, m.Data, key).N > before.N {
			break
		}
	}
}
