package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/cmd/payledger/cli/natslistentest"
	"payledger/httpapi/wire"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
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

// operate calls do with each JetStream stream of the ledger, once there is one.
func operate(t *testing.T, servers string, do func(jetstream.JetStream, jetstream.StreamConfig)) {
	t.Helper()
	nc, err := nats.Connect(servers, nats.UserInfo("ledger", "l:s3cret"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range bus.OurStreams() {
		var found jetstream.Stream
		eventually(t, name+" is there", func() bool {
			found, err = js.Stream(t.Context(), name)
			return err == nil
		})
		do(js, found.CachedInfo().Config)
	}
}

// replicate has three servers keep the JetStream streams, as "nats stream edit" does.
func replicate(t *testing.T, servers string) {
	t.Helper()
	operate(t, servers, func(js jetstream.JetStream, config jetstream.StreamConfig) {
		config.Replicas = 3
		s, err := js.UpdateStream(t.Context(), config)
		if err != nil {
			t.Fatalf("%s: %v", config.Name, err)
		}
		eventually(t, "three servers keep "+config.Name, func() bool {
			info, err := s.Info(t.Context())
			return err == nil && info.Cluster != nil && len(info.Cluster.Replicas) == 2 &&
				!slices.ContainsFunc(info.Cluster.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current })
		})
	})
}

// TestMoveInOnTheOperatorsNATS: a directory whose events are on NATS servers of the
// operator's becomes the first node of a cluster there while it is served. No post fails or
// happens twice, and no webhook goes backward.
func TestMoveInOnTheOperatorsNATS(t *testing.T) {
	inLong(t)
	t.Parallel()
	servers := bustest.StartServers(t, 3, 0, runbookServers(t))
	h := newHook(t)
	n := &nodes{servers: make([]*server, len(nodeNames)), flags: []string{
		"--nats-url", servers.URL, "--nats-credentials", credentials(t, "ledger:l:s3cret"), "--nats-system-credentials", credentials(t, "system:s3cret"),
	}}
	var addresses []string
	for _, name := range nodeNames {
		n.dirs = append(n.dirs, filepath.Join(t.TempDir(), name))
		addresses = append(addresses, name+"="+healthtest.FreeAddress(t))
	}
	does(t, "init", "--data", n.dirs[0])
	n.start(t, 0)
	n.project(t)
	does(t, "webhook", "add", h.URL+"/hook", "--data", n.dirs[0])
	p := &poster{n: n, payments: make(map[string]string)}
	p.posts(t, 5)
	does(t, append([]string{"cluster", "init", "--data", n.dirs[0]}, addresses...)...)
	joins(t, n.dirs[0], "b", n.dirs[1])
	joins(t, n.dirs[0], "c", n.dirs[2])

	operate(t, servers.URL, func(jetstream.JetStream, jetstream.StreamConfig) {}) // they are there
	const kept = "is kept by 1 of the servers, and it takes 3: nats stream edit"
	if out := refused(t, 2, n.dirs[1], n.flags...); !strings.Contains(out, kept) {
		t.Errorf("a node whose events one server keeps: %s", out)
	}
	if out, code := payledger(t, "cluster", "begin", "--data", n.dirs[0]); code == 0 || !strings.Contains(out, kept) {
		t.Errorf("begin while one server keeps the events: exit code %d: %s", code, out)
	}
	p.posts(t, 2)
	replicate(t, servers.URL)
	writing := make(chan struct{})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { p.postsUntil(t, writing) })
	}
	all.Go(func() { n.start(t, 1, 2) })
	does(t, "cluster", "begin", "--data", n.dirs[0])
	eventually(t, "all nodes take part", func() bool {
		_, code := payledger(t, "cluster", "status", "--data", n.dirs[0])
		return code == 0
	})
	done := p.count()
	eventually(t, "payments are made after that", func() bool { return p.count() > done+8 })
	close(writing)
	all.Wait()
	for _, s := range n.servers[1:] {
		s.ProjectID, s.APIKey = n.servers[0].ProjectID, n.servers[0].APIKey
	}
	t.Logf("the longest wait for a 201 was %v", p.longest)
	var ids []string
	for key, id := range p.payments {
		ids = append(ids, id)
		a, ok := n.persist(t, 2, "POST", "/v1/payments", `{"amount":"15.00"}`, "Idempotency-Key", key)
		if !ok || a.Status != 201 || a.text(t, "id") != id {
			t.Errorf("the same request again: %d %s, want payment %s", a.Status, a.Body, id)
		}
	}
	n.agree(t, len(ids))
	n.servers[n.sequencer(t, 1)].kill()
	paid := ids[:5]
	for i, id := range paid {
		n.pays(t, i, id)
	}
	eventually(t, "every payment's outcome is notified", func() bool { return h.knows(paid) })
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.wrongs {
		t.Error(w)
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
