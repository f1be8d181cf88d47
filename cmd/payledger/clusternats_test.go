package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/cmd/payledger/cli/natslistentest"
	"payledger/httpapi/wire"
	"payledger/notifier/bustest"
)

// runbookServers is the configuration of NATS servers that the runbook shows, without
// where they take clients and keep their files.
func runbookServers(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	_, config, _ := strings.Cut(string(b), "\n```\nserver_name: n1\n")
	config, _, ok := strings.Cut(config, "\n```\n")
	if !ok {
		t.Fatal("the runbook shows no configuration")
	}
	config = regexp.MustCompile(`(?m)^listen: .*$`).ReplaceAllString(config, "")
	cert, key := natslistentest.Certificate(t, time.Now().Add(-time.Hour))
	return strings.NewReplacer("store_dir: /var/lib/nats,", "", "PASSWORD", `"l:s3cret"`, "ANOTHER", "s3cret",
		"/etc/nats/server.pem", cert, "/etc/nats/server.key", key, "/etc/nats/ca.pem", cert).Replace(config)
}

// credentials writes a file for --nats-credentials.
func credentials(t *testing.T, line string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "credentials")
	if err := os.WriteFile(name, []byte(line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNodesOnTheOperatorsNATS: three nodes serve one ledger with NATS servers that are not
// theirs, while the sequencer is killed, a NATS server goes and comes back, and a node
// hands over. That the server does not sync every write any more they notice.
func TestNodesOnTheOperatorsNATS(t *testing.T) {
	inLong(t)
	t.Parallel()
	nats := bustest.StartServers(t, 3, 3, runbookServers(t))
	n, h := newNodes(t), newHook(t)
	n.flags = []string{
		"--nats-url", nats.URL, "--nats-credentials", credentials(t, "ledger:l:s3cret"), "--nats-system-credentials", credentials(t, "system:s3cret"),
		"--admin-listen", "127.0.0.1:0",
	}
	n.start(t, 0, 1, 2)
	n.project(t)
	does(t, "webhook", "add", h.URL+"/hook", "--data", n.dirs[1])
	var ids []string
	pay := func(first, times int) {
		t.Helper()
		for i := range times {
			a, ok := n.persist(t, first+i, "POST", "/v1/payments", `{"amount":"15.00"}`)
			if !ok || a.Status != 201 {
				t.Fatalf("POST: %d %s", a.Status, a.Body)
			}
			id := a.text(t, "id")
			if a, ok := n.persist(t, first+i+1, "GET", "/v1/payments/"+id, ""); !ok || a.Status != 200 {
				t.Fatalf("payment %s on another node: %d %s", id, a.Status, a.Body)
			}
			ids = append(ids, id)
		}
	}
	pay(0, 6)

	killed := n.sequencer(t, 0)
	n.servers[killed].kill()
	pay(killed+1, 6)
	other := (killed + 1) % 3
	if now := n.sequencer(t, other); now == killed {
		t.Errorf("node %s is the sequencer and was killed", nodeNames[killed])
	}
	n.start(t, killed)

	stopped := nats.Leads("PAYLEDGER", "LOG")
	if stopped < 0 {
		t.Fatal("nobody leads LOG")
	}
	nats.Stop(stopped)
	pay(0, 6)
	nats.Unsync(stopped) // it comes back as another one
	nats.Start(t, stopped)

	eventually(t, "a node takes over from the sequencer", func() bool {
		now := n.sequencer(t, 0)
		_, code := payledger(t, "cluster", "promote", nodeNames[(now+1)%3], "--data", n.dirs[now])
		return code == 0
	})
	pay(0, 3)
	for i, id := range ids {
		n.pays(t, i, id)
	}
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(ids) })
	n.agree(t, len(ids))
	all, _ := n.status(t, 0)
	for _, node := range all {
		if !strings.Contains(node.Replica, " leads, n") {
			t.Errorf("node %s sees LOG's replicas as %q", node.Node, node.Replica)
		}
	}
	if i := slices.IndexFunc(all, func(o wire.Node) bool { return o.Role == wire.RoleSequencer }); i < 0 {
		t.Errorf("no sequencer: %+v", all)
	}
	eventually(t, "every node knows that a server does not sync every write", func() bool {
		all, _ = n.status(t, 0)
		return !slices.ContainsFunc(all, func(o wire.Node) bool { return !strings.Contains(o.Trouble, "do not sync every write: n") })
	})
	for _, s := range n.servers {
		if !bytes.Contains(s.scrape(t), []byte("\npayledger_cluster_nats_unsynced 1\n")) {
			t.Error("the metric does not tell it")
		}
	}
	if out, code := payledger(t, "nats", "consumer", "create", "till", "--data", n.dirs[0]); code != 5 || !strings.Contains(out, "--nats-url") {
		t.Errorf("a NATS consumer: exit code %d: %s", code, out)
	}
	for _, s := range n.servers {
		if strings.Contains(s.stderr.String(), "s3cret") {
			t.Errorf("a password is in the log: %s", s.stderr)
		}
		s.stops(t)
	}
}

// TestNodesRefuseNATSServers starts nodes with servers that will not do, and nodes that
// do not belong together.
func TestNodesRefuseNATSServers(t *testing.T) {
	unraced(t)
	t.Parallel()
	config := runbookServers(t)
	good := bustest.StartServers(t, 3, 3, config)
	lazy := bustest.StartServers(t, 3, 1, strings.Replace(config, "sync_interval: always", "", 1))
	n, strangers := newNodes(t), newNodes(t)
	ledger, system := credentials(t, "ledger:l:s3cret"), credentials(t, "system:s3cret")
	says := func(want string, code int, dir string, args ...string) {
		t.Helper()
		if out := refused(t, code, dir, args...); !strings.Contains(out, want) || strings.Contains(out, "s3cret") {
			t.Errorf("it says %q, want %s", out, want)
		}
	}
	on := func(s *bustest.Servers, more ...string) []string {
		return append([]string{"--nats-url", s.URL, "--nats-credentials", ledger}, more...)
	}
	says("only the system account of the servers tells", 2, n.dirs[0], on(good)...)
	says("do not sync every write: n3", 2, n.dirs[0], on(lazy, "--nats-system-credentials", system)...)
	says("none of the servers' system account", 2, n.dirs[0], on(good, "--nats-system-credentials", ledger)...)
	says("do not let this node in", 2, n.dirs[0], "--nats-url", good.URL, "--nats-credentials", credentials(t, "ledger:wrong"), "--accept-lazy-sync")
	says("has neither the credentials of a NATS user nor a line USER:PASSWORD", 2, n.dirs[0], "--nats-url", good.URL, "--nats-credentials", credentials(t, "s3cret"))
	says("not the URL of a NATS server", 2, n.dirs[0], "--nats-url", "http://a:4222", "--nats-credentials", ledger)
	says("--nats-listen", 2, n.dirs[0], on(good, "--nats-listen", "127.0.0.1:0")...)

	n.flags = on(good, "--nats-system-credentials", system)
	n.start(t, 0, 1, 2)
	says("JetStream stream LOG holds the log", 2, strangers.dirs[0], n.flags...)
	n.servers[2].stops(t)
	says("--nats-url: node a runs with it, and this one without, or the other way round", 2, n.dirs[2])
	says("in use by another payledger process", 4, n.dirs[1], n.flags...)
	if out, code := payledger(t, "cluster", "leave", "--data", n.dirs[2]); code != 4 || !strings.Contains(out, "still runs at") {
		t.Errorf("leave while other nodes run: exit code %d\n%s", code, out)
	}
	// Others that have no LOG.
	for _, s := range n.servers[:2] {
		s.stops(t)
	}
	says("these NATS servers have no LOG", 3, n.dirs[2], on(lazy, "--accept-lazy-sync")...)
}
