package main

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/eventstore/storetest"
	"payledger/httpapi/wire"
)

// disks are those of three nodes.
type disks []*storetest.Disk

func newDisks(t *testing.T) (all disks) {
	for range nodeNames {
		all = append(all, storetest.NewDisk(t, 96))
	}
	return all
}

// newNodesOn makes the directories of a cluster, each on a disk of its own.
func newNodesOn(t *testing.T, all disks) *nodes {
	n := newNodes(t, all[0].Dir, all[1].Dir, all[2].Dir)
	n.flags = []string{"--min-free=1"}
	return n
}

// cut cuts the power of machines: their disks forget what was not synced, and their
// processes end.
func (all disks) cut(n *nodes, how storetest.Cut, which ...int) {
	for _, i := range which {
		all[i].Cut(how)
	}
	for _, i := range which {
		n.servers[i].kill()
	}
}

// restore brings the power back.
func (all disks) restore(n *nodes, which ...int) {
	for _, i := range which {
		all[i].Restore()
		n.dirs[i] = filepath.Join(all[i].Dir, nodeNames[i])
	}
}

// missing are the payments that are in the log of none of the stopped nodes.
func (n *nodes) missing(t testing.TB, ids []string) (all []string) {
	t.Helper()
	var logs strings.Builder
	for _, dir := range n.dirs {
		out, code := payledger(t, "events", "tail", "--data", dir, "--json")
		if code != 0 {
			t.Logf("the log of %s: exit code %d\n%s", dir, code, out[max(0, len(out)-1000):])
		}
		logs.WriteString(out)
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return strings.Contains(logs.String(), id) })
}

// TestDisksOfNodes cuts the power of one machine and of all, and lets a disk fail, while
// payments are created at all nodes. What was answered is in the log of one at least when
// the power is back, and of all once they run.
func TestDisksOfNodes(t *testing.T) {
	inLong(t)
	t.Parallel()
	all := newDisks(t)
	n := newNodesOn(t, all)
	n.start(t, 0, 1, 2)
	n.project(t)
	w := n.write(t)
	cuts, fails := 0, 0
	cut := func(how storetest.Cut, which ...int) {
		t.Helper()
		w.more(t, 20)
		w.mu.Lock()
		answered := slices.Clone(w.ids)
		w.mu.Unlock()
		all.cut(n, how, which...)
		cuts += len(which)
		if len(which) == 1 {
			w.more(t, 10)
		}
		all.restore(n, which...)
		if len(which) == len(all) {
			if lost := n.missing(t, answered); len(lost) > 0 {
				t.Fatalf("of %d payments that were answered %d are lost: %v", len(answered), len(lost), lost)
			}
		}
		n.start(t, which...)
	}
	fail := func(node int) {
		t.Helper()
		w.more(t, 10)
		leader := n.leader(t, node)
		all[node].Refuse()
		fails++
		s := n.servers[node]
		if node == leader {
			// It ends where a record cannot be written to its log. If its JetStream fails before, it
			// gets no record any more, and does not lead.
			eventually(t, "a leader that cannot write leads no more", func() bool {
				others, _ := n.status(t, (node+1)%len(n.servers))
				return s.killed() || slices.ContainsFunc(others, func(o wire.Node) bool { return o.Role == wire.RoleLeader && o.Node != nodeNames[node] })
			})
			if s.killed() && s.cmd.ProcessState.ExitCode() != cli.ExitFailed {
				t.Errorf("exit code %d, want %d\n%s", s.cmd.ProcessState.ExitCode(), cli.ExitFailed, s.stderr)
			}
		}
		w.more(t, 10)
		s.kill()
		all.restore(n, node)
		n.start(t, node)
	}
	n.becomes(t, 0)
	fail(0)
	for round, how := range []storetest.Cut{storetest.CutAtOnce, storetest.CutWithJournal} {
		cut(storetest.CutAtOnce, 0, 1, 2)
		cut(how, n.leader(t, 0))
		cut(how, (n.leader(t, 0)+1)%3)
		fail((n.leader(t, 0) + round) % 3)
		cut(storetest.CutWithJournal, 0, 1, 2)
	}
	payments := w.end()
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
	t.Logf("%d machines lost their power and %d their disk: %d payments, none lost", cuts, fails, payments)
}

// TestPowerCutWithoutSync: where nothing is synced, payments that were answered are lost
// with the power of all machines, and the test above would notice.
func TestPowerCutWithoutSync(t *testing.T) {
	inLong(t)
	t.Parallel()
	storetest.RequireTools(t, "strace", "strace")
	all := newDisks(t)
	n := newNodesOn(t, all)
	n.start(t, 0, 1, 2)
	n.project(t)
	for _, s := range n.servers {
		s.stop()
	}
	n.under = []string{
		"strace", "-D", "-f", "-qq", "--seccomp-bpf", "-o", filepath.Join(t.TempDir(), "calls"),
		"-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:retval=0",
	}
	if out, err := exec.Command(n.under[0], append(slices.Clone(n.under[1:]), "true")...).CombinedOutput(); err != nil {
		t.Skipf("this system lets no process be traced: %v: %s", err, out)
	}
	n.start(t, 0, 1, 2)
	var answered []string
	for i := range 30 {
		if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`); ok && a.Status == 201 {
			answered = append(answered, a.text(t, "id"))
		}
	}
	all.cut(n, storetest.CutAtOnce, 0, 1, 2)
	all.restore(n, 0, 1, 2)
	lost := n.missing(t, answered)
	if len(lost) == 0 {
		t.Errorf("of %d payments that were answered and not synced none is lost", len(answered))
	}
	t.Logf("%d of %d payments are lost", len(lost), len(answered))
}

// TestFullDiskOfNode fills the disk of the leader: it hands over and says why, the
// others go on, and once there is room the node does too, without a restart. So it is
// with a node that starts on a full disk.
func TestFullDiskOfNode(t *testing.T) {
	inLong(t)
	t.Parallel()
	const minFree = 32 << 20
	disk := storetest.NewTmpfs(t, 96)
	n := newNodes(t, disk)
	n.flags = []string{"--min-free", strconv.Itoa(minFree)}
	n.start(t, 0, 1, 2)
	n.project(t)
	w := n.write(t)
	n.becomes(t, 0)
	w.more(t, 20)
	for _, leave := range []uint64{minFree / 2, 0} {
		fill(t, disk, leave)
		eventually(t, "another node is the leader", func() bool { return n.leader(t, 1) != 0 })
		eventually(t, "the node says why", func() bool {
			all, _ := n.status(t, 1)
			return all[0].Role == wire.RoleSilent || strings.Contains(all[0].Trouble, "disk")
		})
		w.more(t, 60)
	}
	n.servers[0].kill()
	fill(t, disk, 0)
	restarted := n.command(0)
	out, err := restarted.begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { restarted.cmd.Process.Kill() }) //nolint:errcheck // it may be gone already
	ready := make(chan error, 1)
	go func() { ready <- restarted.ready(out) }()
	eventually(t, "the node that starts says why it waits", func() bool {
		return strings.Contains(restarted.stderr.String(), "no space left on device")
	})
	w.more(t, 60)
	select {
	case err := <-ready:
		t.Errorf("on a full disk it is ready, or has ended: %v", err)
	default:
	}
	removeAll(t, filepath.Join(disk, "filler"))
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	n.starting.Lock()
	restarted.ProjectID, restarted.APIKey = n.servers[0].ProjectID, n.servers[0].APIKey
	n.servers[0] = restarted
	n.starting.Unlock()
	eventually(t, "the node takes part again", func() bool {
		_, code := n.status(t, 1)
		return code == 0
	})
	n.becomes(t, 0)
	w.more(t, 10)
	payments := w.end()
	if t.Failed() {
		t.FailNow()
	}
	n.agree(t, payments)
}
