package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/wire"
	"payledger/notifier/health/healthtest"
)

// nodes are three processes that serve one ledger.
type nodes struct {
	dirs    []string
	servers []*server  // nil: it has not run yet
	flags   []string   // of all servers, besides the usual ones
	more    [][]string // of each server
	listens [3]string  // addresses of the servers, which they keep; empty: any
	under   []string   // a program that starts them, with its arguments

	programs [3]string // that the nodes run; empty: this one

	starting sync.Mutex // guards servers where clients run beside start
}

// server is the one of a node that started last.
func (n *nodes) server(i int) *server {
	n.starting.Lock()
	defer n.starting.Unlock()
	return n.servers[i]
}

var nodeNames = []string{"a", "b", "c"}

// newNodes makes the directories of a cluster, in a new place or in these.
func newNodes(t *testing.T, places ...string) *nodes {
	t.Helper()
	n := &nodes{servers: make([]*server, len(nodeNames))}
	var addresses []string
	for i, name := range nodeNames {
		if len(places) < len(nodeNames) {
			places = append(places, t.TempDir())
		}
		n.dirs = append(n.dirs, filepath.Join(places[i], name))
		addresses = append(addresses, name+"="+healthtest.FreeAddress(t))
		n.listens[i] = healthtest.FreeAddress(t)
	}
	does(t, "init", "--data", n.dirs[0])
	does(t, "cluster", "init", "--data", n.dirs[0], "--nodes", strings.Join(addresses, ","))
	for i := range nodeNames[1:] {
		n.copies(t, i+1)
	}
	return n
}

// copies makes a directory as "cluster join" does, while no node is served.
func (n *nodes) copies(t testing.TB, i int) {
	t.Helper()
	if err := os.Mkdir(n.dirs[i], 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"master.key", "log.key", "checkpoint", "nats-credentials.json", "cluster.key", "cluster.json", "ledger.db"} {
		b, err := os.ReadFile(filepath.Join(n.dirs[0], name))
		if name == "cluster.json" {
			b = bytes.Replace(b, []byte(`"node": "a"`), []byte(`"node": "`+nodeNames[i]+`"`), 1)
		}
		if err == nil {
			err = datadir.WriteFileSynced(filepath.Join(n.dirs[i], name), b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// addressesOf are those of the nodes, as a directory has them.
func addressesOf(t testing.TB, dir string) []string {
	t.Helper()
	b, err := os.ReadFile(datadir.Dir(dir).Cluster())
	if err != nil {
		t.Fatal(err)
	}
	return regexp.MustCompile(`127\.0\.0\.1:[0-9]+`).FindAllString(string(b), -1)
}

// does runs a command that has to succeed.
func does(t testing.TB, args ...string) string {
	t.Helper()
	out, code := payledger(t, args...)
	if code != 0 {
		t.Fatalf("payledger %s: exit code %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// joins has a new directory join a node that is served.
func (n *nodes) joins(t testing.TB, at, i int) {
	t.Helper()
	does(t, n.joinArgs(t, at, i)...)
}

func (n *nodes) joinArgs(t testing.TB, at, i int) []string {
	t.Helper()
	return []string{
		"cluster", "join", "--from", addressesOf(t, n.dirs[at])[at], "--key-file", datadir.Dir(n.dirs[at]).ClusterKey(), "--name", nodeNames[i], "--data", n.dirs[i],
	}
}

// command is the server of a node, which is not started yet.
func (n *nodes) command(i int) *server {
	args := slices.Concat(n.under, []string{
		cmp.Or(n.programs[i], "payledger"), "serve", "--data", n.dirs[i], "--sandbox", "--webhook-allow-private", "--log-level", "warn", "--json",
		"--listen", cmp.Or(n.listens[i], "127.0.0.1:0"), "--rate-writes", "0", "--rate-reads", "0", "--rate-customers", "0",
	}, n.flags)
	if n.more != nil {
		args = append(args, n.more[i]...)
	}
	return newServer(exec.Command(args[0], args[1:]...))
}

// start starts nodes together: none is ready before two of them are.
func (n *nodes) start(t testing.TB, which ...int) {
	t.Helper()
	outs, started := make(map[int]io.Reader), make(map[int]*server)
	for _, i := range which {
		s := n.command(i)
		out, err := s.begin()
		if err != nil {
			t.Fatal(err)
		}
		if n.servers[i] != nil {
			s.ProjectID, s.APIKey = n.servers[i].ProjectID, n.servers[i].APIKey
		}
		started[i], outs[i] = s, out
		t.Cleanup(func() {
			if t.Failed() && !s.killed() {
				for _, args := range [][]string{{"status"}, {"cluster", "status"}} {
					out, _ := payledger(t, append(args, "--data", n.dirs[i], "--json")...)
					t.Logf("%s of node %s: %s", strings.Join(args, " "), nodeNames[i], out)
				}
			}
			s.cmd.Process.Kill() //nolint:errcheck // it may be gone already
			if t.Failed() {
				t.Logf("stderr of node %s:\n%s", nodeNames[i], s.stderr)
			}
		})
	}
	var all sync.WaitGroup
	for _, i := range which {
		all.Go(func() {
			late := time.AfterFunc(patience, started[i].kill)
			defer late.Stop()
			if err := started[i].ready(outs[i]); err != nil {
				t.Errorf("node %s: %v", nodeNames[i], err)
			}
		})
	}
	all.Wait()
	n.starting.Lock()
	for i, s := range started {
		n.servers[i] = s
	}
	n.starting.Unlock()
	if t.Failed() {
		t.FailNow()
	}
}

// project makes a project, which all nodes serve.
func (n *nodes) project(t testing.TB) {
	t.Helper()
	var key struct {
		ProjectID string `json:"project_id"`
		APIKey    string `json:"api_key"`
	}
	eventually(t, "a project is made", func() bool { // once there is a leader; a second project harms nothing
		out, code := payledger(t, "project", "create", "Tea shop", "--json", "--data", n.dirs[0])
		return code == 0 && json.Unmarshal([]byte(out), &key) == nil
	})
	for _, s := range n.servers {
		if s != nil {
			s.ProjectID, s.APIKey = key.ProjectID, key.APIKey
		}
	}
}

// status is what a node says of the cluster.
func (n *nodes) status(t testing.TB, of int) (all []wire.Node, code int) {
	t.Helper()
	cmd := exec.Command("payledger", "cluster", "status", "--json", "--data", n.dirs[of])
	out, err := cmd.Output()
	if cmd.ProcessState == nil || len(out) == 0 {
		t.Fatalf("cluster status of node %s: %v", nodeNames[of], err)
	}
	for line := range bytes.Lines(out) {
		var one wire.Node
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatalf("cluster status of node %s: %s: %v", nodeNames[of], out, err)
		}
		all = append(all, one)
	}
	return all, cmd.ProcessState.ExitCode()
}

// leader waits until a node says which one it is.
func (n *nodes) leader(t testing.TB, asked int) (found int) {
	t.Helper()
	eventually(t, "a node is the leader", func() bool {
		all, _ := n.status(t, asked)
		found = slices.IndexFunc(all, func(o wire.Node) bool { return o.Role == wire.RoleLeader })
		return found >= 0
	})
	return found
}

// becomes makes a node the leader.
func (n *nodes) becomes(t testing.TB, node int) {
	t.Helper()
	eventually(t, "node "+nodeNames[node]+" is promoted", func() bool {
		_, code := payledger(t, "cluster", "promote", nodeNames[node], "--data", n.dirs[node])
		return code == 0
	})
}

// persist sends a request to the nodes in turn until one of them has answered it, as a
// client does that finds no server, or a server that cannot answer now.
func (n *nodes) persist(t testing.TB, first int, method, path, body string, header ...string) (answer, bool) {
	for i, deadline := first, time.Now().Add(patience); time.Now().Before(deadline); i++ {
		a, err := n.server(i%len(n.servers)).send(method, path, body, header...)
		if err == nil && a.Status != http.StatusServiceUnavailable {
			return a, true
		}
		if err == nil && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s %s: 503 without Retry-After: %s", method, path, a.Body)
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%s %s: no node answers", method, path)
	return answer{}, false
}

// pays has the sandbox pay a payment. An answer may be lost when its node is killed, and
// paying again would be money that came twice: so the payment is read first.
func (n *nodes) pays(t testing.TB, first int, id string) {
	t.Helper()
	eventually(t, "payment "+id+" is paid", func() bool {
		a, ok := n.persist(t, first, "GET", "/v1/payments/"+id, "")
		if ok && a.Status == 200 && a.text(t, "status") == "paid" {
			return true
		}
		a, ok = n.persist(t, first, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
		return ok && a.Status == 200
	})
}

// notifies has a node add an endpoint, once there is a leader. Of one that was added although the
// command failed, the list says so.
func (n *nodes) notifies(t testing.TB, of int, h *hook) {
	t.Helper()
	eventually(t, "there is an endpoint", func() bool {
		if out, code := payledger(t, "webhook", "list", "--project", n.servers[of].ProjectID, "--data", n.dirs[of]); code != 0 || strings.Contains(out, h.URL) {
			return code == 0
		}
		_, code := payledger(t, "webhook", "add", h.URL+"/hook", "--project", n.servers[of].ProjectID, "--data", n.dirs[of])
		return code == 0
	})
}

// delivered waits until the node that sends has nothing left to notify.
func (n *nodes) delivered(t testing.TB, sends int, h *hook, ids []string) {
	t.Helper()
	eventually(t, "all notifications are delivered", func() bool {
		var status wire.Status
		out, code := payledger(t, "status", "--json", "--data", n.dirs[sends])
		return code == 0 && json.Unmarshal([]byte(out), &status) == nil && status.NotificationsPending == 0 && h.knows(ids)
	})
}

// insists sends a request to one node until that answers it: it may have no leader for a moment.
func (n *nodes) insists(t testing.TB, of, want int, method, path, body string) (a answer) {
	t.Helper()
	eventually(t, "node "+nodeNames[of]+" answers "+method+" "+path, func() bool {
		var err error
		a, err = n.servers[of].send(method, path, body)
		return err == nil && a.Status != http.StatusServiceUnavailable
	})
	if a.Status != want {
		t.Fatalf("%s %s: %d, want %d\n%s", method, path, a.Status, want, a.Body)
	}
	return a
}

// TestThreeNodesServeOneLedger: what one node has answered every other one shows at
// once, also while the leader is killed and comes back; a command that is repeated
// with its key, on whichever node, happens once; in the end the nodes have the same
// log.
func TestThreeNodesServeOneLedger(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	const writers = 4
	each := rounds(6, 60)
	var all sync.WaitGroup
	var mu sync.Mutex
	payments := make(map[string]string) // id by key
	half := make(chan struct{})
	for w := range writers {
		all.Go(func() {
			for i := range each {
				if i == each/2 {
					<-half // the leader has just been killed
				}
				key := fmt.Sprintf("00000000-0000-4000-8000-%012d", 1000*w+i)
				a, ok := n.persist(t, w+i, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key)
				if !ok || a.Status != 201 {
					t.Errorf("POST %s: %d %s", key, a.Status, a.Body)
					return
				}
				id := a.text(t, "id")
				if a, ok := n.persist(t, w+i+1, "GET", "/v1/payments/"+id, ""); !ok || a.Status != 200 {
					t.Errorf("payment %s, which was answered before, on the next node: %d %s", id, a.Status, a.Body)
				}
				if a, ok := n.persist(t, w+i+2, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key); !ok || a.Status != 201 || a.text(t, "id") != id {
					t.Errorf("the same request again: %d %s, want payment %s", a.Status, a.Body, id)
				}
				mu.Lock()
				payments[key] = id
				mu.Unlock()
			}
		})
	}
	killed := n.leader(t, 0)
	n.servers[killed].kill()
	close(half)
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	other := (killed + 1) % len(n.servers)
	if now := n.leader(t, other); now == killed {
		t.Errorf("node %s is the leader and was killed", nodeNames[killed])
	}
	if all, code := n.status(t, other); code != 1 || all[killed].Role != wire.RoleSilent {
		t.Errorf("without node %s: exit code %d, %+v", nodeNames[killed], code, all)
	}
	n.start(t, killed)
	for _, id := range payments {
		a, ok := n.persist(t, killed, "GET", "/v1/payments/"+id, "")
		if !ok || a.Status != 200 {
			t.Errorf("payment %s: %d %s", id, a.Status, a.Body)
		}
	}
	// The next leader has taken the work over.
	for _, id := range payments {
		n.pays(t, other, id)
	}
	n.agree(t, len(payments))
	for _, s := range n.servers {
		if a, err := s.send("GET", "/readyz", ""); err != nil || a.Status != 200 {
			t.Errorf("/readyz: %d %v", a.Status, err)
		}
	}
	n.stop(t)
}

var rootLine = regexp.MustCompile(`(?m)^root hash +(\S+)$`)

// agree checks that the nodes' logs are whole and the same, with so many payments.
func (n *nodes) agree(t testing.TB, payments int) {
	t.Helper()
	eventually(t, "all nodes take part and have come as far", func() bool {
		all, code := n.status(t, 0)
		return code == 0 && all[0].Position == all[1].Position && all[1].Position == all[2].Position
	})
	var roots []string
	eventually(t, "all nodes have the same log", func() bool {
		roots = nil
		for _, dir := range n.dirs {
			out := does(t, "verify", dir)
			if want := fmt.Sprintf(", %d payments, ", payments); !strings.Contains(out, want) {
				t.Fatalf("want%sin\n%s", want, out)
			}
			if m := rootLine.FindStringSubmatch(out); m != nil {
				roots = append(roots, m[1])
			}
		}
		return len(roots) == 3 && roots[0] == roots[1] && roots[1] == roots[2]
	})
}

// TestNodeIsNotReadyAlone: a node that has lost the other two answers nothing that
// could be false, and says that it is not ready.
func TestNodeIsNotReadyAlone(t *testing.T) {
	unraced(t)
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	id := n.servers[2].do(t, 201, "POST", "/v1/payments", `{"amount":"15.00"}`).text(t, "id")
	for i, s := range n.servers { // each is asked for itself
		if out := does(t, "status", "--json", "--data", n.dirs[i]); !strings.Contains(out, `"base_url":"`+s.BaseURL+`"`) ||
			!strings.Contains(out, `"ready":true`) {
			t.Errorf("status of node %s, which is at %s: %s", nodeNames[i], s.BaseURL, out)
		}
	}
	n.servers[0].kill()
	n.servers[1].kill()
	left := n.servers[2]
	eventually(t, "the node is not ready", func() bool {
		a, err := left.send("GET", "/readyz", "")
		return err == nil && a.Status == 503
	})
	if out, code := payledger(t, "status", "--data", n.dirs[2]); code != 1 || !strings.Contains(out, left.BaseURL) || !strings.Contains(out, "leader") {
		t.Errorf("status of a node that is alone: exit code %d\n%s", code, out)
	}
	for _, path := range []string{"/v1/payments/" + id, "/v1/payments/" + id[:25] + "0"} {
		if a := left.do(t, 503, "GET", path, ""); a.Header.Get("Retry-After") == "" {
			t.Errorf("GET %s: no Retry-After", path)
		}
	}
	left.do(t, 503, "POST", "/v1/payments", `{"amount":"15.00"}`)
	n.start(t, 0)
	eventually(t, "two nodes are ready", func() bool {
		a, err := left.send("GET", "/readyz", "")
		return err == nil && a.Status == 200
	})
	n.persist(t, 2, "GET", "/v1/payments/"+id, "")
}

// TestWaitingNodeIsStopped: a node that is stopped while it waits for the others ends as
// one that serves.
func TestWaitingNodeIsStopped(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	s := n.command(0)
	out, err := s.begin()
	if err != nil {
		t.Fatal(err)
	}
	go s.ready(out) //nolint:errcheck // it is never ready
	t.Cleanup(s.kill)
	eventually(t, "the node waits", func() bool {
		out, _ := payledger(t, "cluster", "status", "--data", n.dirs[0])
		return strings.Contains(out, "a (here)  waiting")
	})
	s.stops(t)
	if log := s.stderr.String(); !strings.Contains(log, "stopped before it is ready") {
		t.Errorf("it says\n%s", log)
	}
}

// refused starts a server that must not come up, and answers its one line.
func refused(t *testing.T, want int, dir string, args ...string) string {
	t.Helper()
	out, code := payledger(t, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--log-level", "error"}, args...)...)
	if code != want || strings.Count(strings.TrimSpace(out), "\n") != 0 {
		t.Errorf("serve %s: exit code %d, want %d and one line\n%s", dir, code, want, out)
	}
	return out
}

// TestServeRefusesWhatIsNoNodeOfTheCluster starts directories that do not belong to a
// cluster, beside nodes that run.
func TestServeRefusesWhatIsNoNodeOfTheCluster(t *testing.T) {
	t.Parallel()
	n, strangers := newNodes(t), newNodes(t)
	n.start(t, 0, 1, 2)
	copied := func(dir string) string {
		to := t.TempDir()
		for _, name := range []string{"ledger.db", "master.key", "log.key", "checkpoint", "cluster.json", "cluster.key"} {
			b, err := os.ReadFile(filepath.Join(dir, name))
			if err == nil {
				err = os.WriteFile(filepath.Join(to, name), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return to
	}
	takes := func(dir, from, name string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	says := func(line, want string) {
		t.Helper()
		if !regexp.MustCompile(want).MatchString(line) {
			t.Errorf("it says %q, want %s", line, want)
		}
	}

	says(refused(t, 4, n.dirs[1]), "in use by another payledger process")
	says(refused(t, 6, copied(n.dirs[1])), "the address .* of node b cannot be taken: .*; does another process serve this node, or a copy of its directory\\?")

	// The log of another ledger, without and with the keys of that.
	other := copied(strangers.dirs[1])
	alone := filepath.Join(t.TempDir(), "alone")
	does(t, "init", "--data", alone)
	takes(other, alone, "ledger.db")
	says(refused(t, 3, other), "is of the event log .*, and the cluster's is")
	takes(other, alone, "log.key")
	takes(other, alone, "checkpoint")
	says(refused(t, 3, other), "is of the event log .*, and the cluster's is")

	// Files that are lost, damaged, or of another version.
	other = copied(strangers.dirs[1])
	takes(other, n.dirs[0], "log.key") // 0600, but no key of this kind
	if err := os.Rename(filepath.Join(other, "log.key"), filepath.Join(other, "cluster.key")); err != nil {
		t.Fatal(err)
	}
	says(refused(t, 3, other), "cluster.key: want 64 hexadecimal digits")
	if err := os.Remove(filepath.Join(other, "cluster.key")); err != nil {
		t.Fatal(err)
	}
	says(refused(t, 3, other), "the cluster's key: .*: copy it from another node's directory")
	editMember(t, other, strings.NewReplacer("payledger cluster 2", "payledger cluster 3").Replace)
	says(refused(t, 3, other), `cluster.json cannot be read: it is of the format "payledger cluster 3"`)

	// A node of another cluster at the addresses of this one, and one with another key: nobody
	// speaks to it, and it says so.
	n.servers[2].stops(t)
	kept, err := os.ReadFile(datadir.Dir(n.dirs[2]).ClusterKey())
	if err != nil {
		t.Fatal(err)
	}
	takes(n.dirs[2], strangers.dirs[2], "cluster.key")
	wrong := n.command(2)
	out, err := wrong.begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wrong.kill)
	go wrong.ready(out) //nolint:errcheck // it is never ready
	eventually(t, "the node with another key is told", func() bool {
		out, code := payledger(t, "cluster", "status", "--data", n.dirs[2])
		return code == 1 && regexp.MustCompile(`a +silent .*certificate`).MatchString(out)
	})
	if a, ok := n.persist(t, 0, "GET", "/readyz", ""); !ok || a.Status != 200 {
		t.Errorf("/readyz beside it: %d", a.Status)
	}
	wrong.stops(t)
	if err := os.WriteFile(datadir.Dir(n.dirs[2]).ClusterKey(), kept, 0o600); err != nil {
		t.Fatal(err)
	}

	// A node served as if it were alone.
	if err := os.Remove(datadir.Dir(n.dirs[2]).Cluster()); err != nil {
		t.Fatal(err)
	}
	says(refused(t, 3, n.dirs[2]), "was a node of a cluster, and its cluster.json is gone")
	says(refused(t, 2, n.dirs[1], "--nats-url", "nats://127.0.0.1:1"), `--nats-url: .* is a node of a cluster`)
}

// TestWebhooksAfterHandOver: the next leader notifies of what the killed one had
// not, of nothing that is older than what an endpoint has heard, and of nothing again
// that was delivered.
func TestWebhooksAfterHandOver(t *testing.T) {
	inLong(t) // TestClusterUnderFaults has webhooks and a hand-over too
	t.Parallel()
	n, h := newNodes(t), newHook(t)
	n.flags = retriesAtOnce()
	n.start(t, 0, 1, 2)
	n.project(t)
	n.notifies(t, 0, h)
	var ids []string
	pay := func() {
		for i := range 10 {
			a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`)
			if !ok || a.Status != 201 {
				t.Fatalf("POST: %d %s", a.Status, a.Body)
			}
			id := a.text(t, "id")
			ids = append(ids, id)
			n.pays(t, i, id)
		}
	}
	for range rounds(1, 3) {
		pay()
		sends := n.leader(t, 0)
		n.delivered(t, sends, h, ids)
		before := h.heardOf(ids)
		half := len(ids)
		pay()
		n.servers[sends].kill()
		pay()
		n.start(t, sends)
		eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
		if after := h.heardOf(ids[:half]); !maps.Equal(before, after) {
			t.Errorf("notifications that were delivered: before the hand-over %v, then %v", before, after)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrongs {
		t.Error(w)
	}
}

// knows reports whether the hook has heard the outcome of all payments.
func (h *hook) knows(ids []string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !slices.ContainsFunc(ids, func(id string) bool { return h.newest["/hook "+id] < 2 })
}

// heardOf is how many notifications the hook has heard of each payment.
func (h *hook) heardOf(ids []string) map[string]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]int)
	for _, id := range ids {
		for _, n := range h.heard["/hook "+id] {
			all[id] += n
		}
	}
	return all
}

// writers are clients that create payments, each at a node of its own while that runs.
// They notice any answer but 201 and 503 with Retry-After.
type writers struct {
	n    *nodes
	stop func()
	all  sync.WaitGroup

	mu       sync.Mutex
	payments int
	ids      []string      // of these
	longest  time.Duration // from a request to its 201
}

func (n *nodes) write(t testing.TB) *writers {
	stopped := make(chan struct{})
	w := &writers{n: n, stop: sync.OnceFunc(func() { close(stopped) })}
	t.Cleanup(func() { w.end() }) // also of a test that failed: no client outlives it
	for i := range n.servers {
		w.all.Go(func() {
			for round := 0; ; round++ {
				select {
				case <-stopped:
					return
				case <-time.After(100 * time.Millisecond): // there is one processor or two for all the nodes
				}
				key := fmt.Sprintf("00000000-0000-4000-8000-%012d", 100_000*i+round)
				began := time.Now()
				a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key)
				if !ok || a.Status != 201 {
					t.Errorf("POST %s: %d %s", key, a.Status, a.Body)
					return
				}
				id := a.text(t, "id")
				w.mu.Lock()
				w.payments++
				w.ids = append(w.ids, id)
				w.longest = max(w.longest, time.Since(began))
				w.mu.Unlock()
			}
		})
	}
	return w
}

// slowest is the longest request since it was asked last.
func (w *writers) slowest() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest := w.longest
	w.longest = 0
	return longest
}

// more waits until so many more payments are created.
func (w *writers) more(t testing.TB, payments int) {
	t.Helper()
	count := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.payments
	}
	goal := count() + payments
	eventually(t, "payments are created", func() bool { return count() >= goal })
}

func (w *writers) end() (payments int) {
	w.stop()
	w.all.Wait()
	return w.payments
}

// TestHandOver: another node leads, by command and because the leader
// is stopped, while payments are created; none fails, is lost or happens twice.
func TestHandOver(t *testing.T) {
	t.Parallel()
	n := newNodes(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	w := n.write(t)
	promote := func(asked, to int) string {
		var out string
		eventually(t, "node "+nodeNames[to]+" is promoted", func() bool {
			var code int
			out, code = payledger(t, "cluster", "promote", nodeNames[to], "--data", n.dirs[asked])
			return code == 0
		})
		return out
	}
	was := n.leader(t, 0)
	w.slowest()
	for i := range 3 {
		to := (was + 1) % 3
		out := promote((was+i)%3, to)
		if !strings.Contains(out, "node "+nodeNames[to]+" is the leader now") {
			t.Errorf("promote says %q", out)
		}
		if now := n.leader(t, was); now != to {
			t.Errorf("node %s is the leader, %s was promoted", nodeNames[now], nodeNames[to])
		}
		t.Logf("promoted: the slowest payment took %v", w.slowest())
		was = to
	}
	if out := does(t, "cluster", "promote", nodeNames[was], "--data", n.dirs[0], "--json"); !strings.Contains(out, `"was":"`+nodeNames[was]) {
		t.Errorf("promoting the leader says %q", out)
	}
	if out, code := payledger(t, "cluster", "promote", "d", "--data", n.dirs[0]); code != 2 || !strings.Contains(out, `"d" is none of the nodes: a b c`) {
		t.Errorf("promoting a stranger: exit code %d, %q", code, out)
	}
	for range rounds(1, 3) {
		stopped := n.leader(t, 0)
		w.slowest()
		n.servers[stopped].stops(t)
		t.Logf("stopped: the slowest payment took %v", w.slowest())
		left := (stopped + 1) % 3
		if now := n.leader(t, left); now == stopped {
			t.Errorf("node %s is stopped and the leader", nodeNames[stopped])
		}
		if out, code := payledger(t, "cluster", "promote", nodeNames[stopped], "--data", n.dirs[left]); code != 5 || !strings.Contains(out, "node "+nodeNames[stopped]+" does not answer") {
			t.Errorf("promoting a node that is away: exit code %d, %q", code, out)
		}
		n.start(t, stopped)
	}
	payments := w.end()
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
}

// TestBackToOneNode: of three stopped nodes the one that has come farthest goes on
// alone, with all that was answered.
func TestBackToOneNode(t *testing.T) {
	inLong(t)
	t.Parallel()
	n, h := newNodes(t), newHook(t)
	n.start(t, 0, 1, 2)
	n.project(t)
	n.notifies(t, 0, h)
	var ids []string
	for i := range 6 {
		a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`)
		if !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
		ids = append(ids, a.text(t, "id"))
	}
	if out, code := payledger(t, "cluster", "leave", "--data", n.dirs[0]); code != 4 {
		t.Errorf("leave while the server runs: exit code %d\n%s", code, out)
	}
	n.servers[0].stops(t)
	if out, code := payledger(t, "cluster", "leave", "--data", n.dirs[0]); code != 4 || !strings.Contains(out, "still runs at") {
		t.Errorf("leave while other nodes run: exit code %d\n%s", code, out)
	}
	a, ok := n.persist(t, 1, "POST", "/v1/payments", `{"amount":"15.00"}`) // the stopped node does not have it
	if !ok || a.Status != 201 {
		t.Fatalf("POST: %d %s", a.Status, a.Body)
	}
	ids = append(ids, a.text(t, "id"))
	n.servers[1].stops(t)
	n.servers[2].stop() // alone it has to give up what the others would have agreed to
	var most uint64
	var at [3]uint64
	for i, dir := range n.dirs {
		var shown struct{ Position uint64 }
		if err := json.Unmarshal([]byte(does(t, "cluster", "leave", "--data", dir, "--json")), &shown, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatal(err)
		}
		at[i] = shown.Position
		most = max(most, shown.Position)
	}
	flags := []string{"--position", strconv.FormatUint(most, 10)}
	if out, code := payledger(t, append([]string{"cluster", "leave", "--data", n.dirs[0]}, flags...)...); code != 3 || !strings.Contains(out, "take the directory that has come farthest") {
		t.Errorf("the shortest of %v leaves: exit code %d\n%s", at, code, out)
	}
	alone := slices.Index(at[:], most)
	does(t, append([]string{"cluster", "leave", "--data", n.dirs[alone]}, flags...)...)
	n.start(t, alone)
	s := n.servers[alone]
	if out, code := payledger(t, "cluster", "status", "--data", n.dirs[alone]); code != 3 || !strings.Contains(out, "is in no cluster") {
		t.Errorf("cluster status: exit code %d\n%s", code, out)
	}
	ids = append(ids, s.do(t, 201, "POST", "/v1/payments", `{"amount":"15.00"}`).text(t, "id"))
	for _, id := range ids {
		s.do(t, 200, "GET", "/v1/payments/"+id, "")
		s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	}
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
	does(t, "verify", n.dirs[alone])
	s.stops(t)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrongs {
		t.Error(w)
	}
}
