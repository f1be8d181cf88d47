package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/httpapi/wire"
)

// vouchedFor has a node sign a checkpoint, and verifies its log against that; the
// witnesses' keys and the checkpoint are in files of the directory. A node that lags, or
// whose cluster elects, succeeds later.
func (n *nodes) vouchedFor(t testing.TB, of int, dir string, args ...string) (out string, code int) {
	t.Helper()
	file := filepath.Join(dir, "checkpoint")
	if out, code = payledger(t, "log", "checkpoint", "--data", n.dirs[of]); code != 0 {
		return out, code
	}
	if err := os.WriteFile(file, []byte(out), 0o600); err != nil {
		t.Fatal(err)
	}
	with := []string{"verify", "--data", n.dirs[of], "--checkpoint", file, "--witness-key", filepath.Join(dir, "witnesses")}
	return payledger(t, append(with, args...)...)
}

func (n *nodes) verified(t testing.TB, of, want int, args ...string) string {
	t.Helper()
	out, code := payledger(t, append([]string{"verify", "--data", n.dirs[of]}, args...)...)
	if code != want {
		t.Fatalf("verify %s: exit code %d, want %d\n%s", args, code, want, out)
	}
	return out
}

// TestNodesVouchForCheckpoints: each node adds its cosignature to a checkpoint, whichever
// node has signed it, and verify counts those of the keys that it is given. A node whose log
// was altered vouches for nothing: it stops, says from which event on its log differs, and
// the other two go on.
func TestNodesVouchForCheckpoints(t *testing.T) {
	unraced(t)
	t.Parallel()
	n, dir := newNodes(t), t.TempDir()
	n.start(t, 0, 1, 2)
	n.project(t)
	for i := range 4 {
		if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00","description":"order-1042"}`); !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
	}
	var keys string
	eventually(t, "all keys are known", func() bool {
		out, code := payledger(t, "cluster", "witnesses", "--data", n.dirs[1])
		keys = out
		return code == 0 && strings.Count(out, "\n") == 3
	})
	if err := os.WriteFile(filepath.Join(dir, "witnesses"), []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	for of := range n.servers {
		eventually(t, "all nodes vouch for a checkpoint of node "+nodeNames[of], func() bool {
			out, code := n.vouchedFor(t, of, dir)
			return code == 0 && strings.Contains(out, "vouched for by 3 of 3 witnesses: payledger/")
		})
	}
	eventually(t, "all three are a quorum", func() bool {
		_, code := n.vouchedFor(t, 0, dir, "--quorum", "3")
		return code == 0
	})

	// A cosignature counts for whoever has its key among those that are given.
	stranger := func(name string) (private, public string) {
		private, public = filepath.Join(dir, name+".private"), filepath.Join(dir, name)
		if err := os.WriteFile(public, []byte(does(t, "log", "witness-key", name, "--key", private)), 0o600); err != nil {
			t.Fatal(err)
		}
		return private, public
	}
	private, unknown := stranger("unknown")
	verifier := strings.TrimSpace(does(t, "log", "key", "--data", n.dirs[0]))
	cosigned := does(t, "log", "cosign", filepath.Join(dir, "checkpoint"), "--data", n.dirs[0], "--key", private, "--verifier-key", verifier)
	if err := os.WriteFile(filepath.Join(dir, "cosigned"), []byte(cosigned), 0o600); err != nil {
		t.Fatal(err)
	}
	with := []string{"--checkpoint", filepath.Join(dir, "cosigned"), "--witness-key", filepath.Join(dir, "witnesses")}
	if out := n.verified(t, 0, 0, with...); !strings.Contains(out, "vouched for by 3 of 3 witnesses") {
		t.Errorf("with the cosignature of a stranger:\n%s", out)
	}
	if out := n.verified(t, 0, 0, append(with, "--witness-key", unknown)...); !strings.Contains(out, "vouched for by 4 of 4 witnesses") {
		t.Errorf("with the key of the stranger too:\n%s", out)
	}
	_, other := stranger("other")
	if out := n.verified(t, 0, cli.ExitVerify, append(with, "--witness-key", other, "--quorum", "4")...); !strings.Contains(out, "vouched for by 3 of 4 witnesses") {
		t.Errorf("with a key that has not signed:\n%s", out)
	}

	altered := 2
	if n.leader(t, 0) == altered {
		altered = 1
	}
	n.servers[altered].stops(t)
	at := alterPayment(t, n.dirs[altered])
	for _, name := range []string{"projections.db", "checkpoint"} {
		if err := os.Remove(filepath.Join(n.dirs[altered], name)); err != nil {
			t.Fatal(err)
		}
	}
	n.start(t, altered)
	// The others' log shows it as long as that goes back so far, a checkpoint that another node signed always.
	position := strconv.FormatUint(uint64(at), 10)
	stopped := regexp.MustCompile(`differ at position ` + position + `: |differs .* from position ` + position + ` on, where node . has another event`)
	eventually(t, "the altered node stops", func() bool {
		all, code := n.status(t, 0)
		return code == 1 && all[altered].Role == wire.RoleStopped && stopped.MatchString(all[altered].Trouble)
	})
	n.servers[altered].do(t, 503, "GET", "/readyz", "")
	whole := (altered + 1) % len(n.servers)
	// It does not answer by itself, and the others may be electing after its start.
	through := n.insists(t, altered, 201, "POST", "/v1/payments", `{"amount":"15.00"}`).text(t, "id")
	n.insists(t, whole, 200, "GET", "/v1/payments/"+through, "")
	if a, ok := n.persist(t, whole, "POST", "/v1/payments", `{"amount":"15.00"}`); !ok || a.Status != 201 {
		t.Errorf("POST: %d %s", a.Status, a.Body)
	}
	eventually(t, "two nodes vouch", func() bool {
		out, code := n.vouchedFor(t, whole, dir)
		return code == 0 && strings.Contains(out, "vouched for by 2 of 3 witnesses")
	})
}

// alterPayment changes a payment in a log without a trace in the file, and answers where.
func alterPayment(t *testing.T, dir string) (at eventstore.Position) {
	t.Helper()
	store, err := bolt.OpenReadOnly(filepath.Join(dir, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	var found eventstore.Stored
	for r, err := range store.Scan(t.Context(), 0, eventstore.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if found.Position == 0 && bytes.Contains(r.Body, []byte(`"render":1`)) {
			found = r
		}
	}
	if err := store.Close(); err != nil || found.Position == 0 {
		t.Fatal(err, found.Position)
	}
	(&evidenceDir{dir: dir}).rewrite(t, found, `"render":1`, `"render":2`)
	return found.Position
}
