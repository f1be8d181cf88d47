package admincmd

import (
	"errors"
	"net/http"

	"payledger/cmd/payledger/console"
)

// ClusterRebase makes LOG anew.
type ClusterRebase struct{ console.Directory }

// Help is shown by --help.
func (ClusterRebase) Help() string {
	return `For a cluster whose nodes all wait, because the common write-ahead log is lost: nats-cluster/
was removed on all three machines, or on NATS servers of your own the stream LOG. Every payment
that was answered is in the nodes' own logs. While all three nodes are served, give the command
on any of them. The new log begins behind what the node has that has come farthest; the others get
from it what they lack, and all of them go on.

Refused, with nothing changed, while the servers have a LOG, in the first ten seconds in which they
say that they have none, while a node does not answer, and where the nodes' logs differ.

A node that is lost for good, or whose log is wrong, is made anew before that, on the
first node, while nobody is served:
  payledger cluster invite NODE --data DIR
with "payledger cluster join" in an empty directory. What only that node had is lost.`
}

// Run makes it, and waits until the cluster goes on.
func (c ClusterRebase) Run(a *console.App) error {
	m, err := runningNode(a, c.Directory)
	if err != nil {
		return err
	}
	if err := m.Call(a.Ctx, http.MethodPost, "/admin/cluster/rebase", nil, nil); err != nil {
		return err
	}
	return awaitSequencer(a, m, "the common write-ahead log was made anew", func() error {
		return errors.New("the common write-ahead log was made anew and the nodes are not ready yet: see \"payledger cluster status\"")
	})
}
