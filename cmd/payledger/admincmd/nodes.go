package admincmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/wire"
	"payledger/notifier/health"
)

// ClusterStatus shows the nodes.
type ClusterStatus struct{ Directory }

// Help is shown by --help.
func (ClusterStatus) Help() string {
	return `Asks the server that runs on the directory, and it asks the other nodes.

ROLE     sequencer (writes the log, routes payments, sends webhooks), follower, stopped (its
         log differs: payledger cluster rebuild; or its program is too old: upgrade it),
         waiting (for other nodes, and takes no part yet) or silent (it does not answer)
VERSION  of the node's program; which events an older one cannot read stands below the table
LAG      groups of commits that the node knows of and does not have yet
REPLICA  the node's replica of the common write-ahead log, as its leader sees it

Exit code 0: all nodes take part; 1: not all do, or no server answers.`
}

// runningNode is the server that runs on a node's directory.
func runningNode(a *cli.App, c Directory) (*cli.Client, error) {
	d := datadir.Dir(c.Data)
	m, err := c.Running(a)
	switch {
	case err != nil:
		return nil, err
	case !d.Clustered():
		return nil, cli.Errorf(cli.ExitDirectory, "%s is in no cluster: \"payledger cluster init\" makes one", d)
	case m == nil:
		return nil, fmt.Errorf("no server answers on %s", d)
	}
	return m, nil
}

// nodesOf asks a server for the nodes.
func nodesOf(ctx context.Context, m *cli.Client, method, path string) ([]wire.Node, error) {
	var all struct {
		Data []wire.Node `json:"data"`
	}
	err := m.Call(ctx, method, path, nil, &all)
	return all.Data, err
}

// Run shows the nodes.
func (c ClusterStatus) Run(a *cli.App) error {
	m, err := runningNode(a, c.Directory)
	if err != nil {
		return err
	}
	all, err := nodesOf(a.Ctx, m, http.MethodGet, "/admin/cluster")
	if err != nil {
		return err
	}
	if a.JSON {
		err = a.PrintJSON(all)
	} else {
		err = a.PrintTable("no nodes", []string{"NODE", "ROLE", "VERSION", "GROUPS", "POSITION", "LAG", "REPLICA", "TROUBLE"}, nodeRows(all))
	}
	for _, n := range all {
		if len(n.Extra) > 0 && !a.JSON {
			fmt.Fprintf(a.Stdout, "\nNode %s alone has, and the log of the cluster has not:\n", n.Node)
			for _, event := range n.Extra {
				fmt.Fprintf(a.Stdout, "  %s\n", cli.Visible(event))
			}
		}
		if len(n.CannotRead) > 0 && !a.JSON {
			fmt.Fprintf(a.Stdout, "\nNode %s runs an older program than another node. Upgrade it; until then events are refused (503) that it cannot read:\n  %s\n",
				n.Node, strings.Join(n.CannotRead, "\n  "))
		}
		if n.Role != wire.RoleSequencer && n.Role != wire.RoleFollower {
			err = errors.Join(err, fmt.Errorf("node %s takes no part: %s", n.Node, n.Trouble))
		}
	}
	return err
}

func nodeRows(all []wire.Node) (rows [][]string) {
	for _, n := range all {
		name, trouble := n.Node, n.Trouble
		if n.Here {
			name += " (here)"
		}
		if n.TroubleAt != nil {
			trouble = n.TroubleAt.String() + " " + trouble
		}
		number := func(v uint64) string { return strconv.FormatUint(v, 10) }
		rows = append(rows, []string{name, string(n.Role), n.Version, number(n.Groups), number(n.Position), number(n.Lag), n.Replica, trouble})
	}
	return rows
}

// awaitSequencer waits until the cluster has a sequencer, and the node that is asked takes
// part. late says why it may take no longer.
func awaitSequencer(a *cli.App, m *cli.Client, done string, late func() error) error {
	ctx, cancel := context.WithTimeout(a.Ctx, beginTime)
	defer cancel()
	for {
		all, err := nodesOf(ctx, m, http.MethodGet, "/admin/cluster")
		sequencer, here := "", false
		for _, n := range all {
			if n.Role == wire.RoleSequencer {
				sequencer = n.Node
			}
			here = here || n.Here && n.Role != wire.RoleWaiting
		}
		if sequencer != "" && here {
			return a.Print(map[string]any{"nodes": all}, "%s; node %s is the sequencer\n", done, sequencer)
		}
		select {
		case <-ctx.Done():
			return errors.Join(late(), err)
		case <-time.After(lookEvery):
		}
	}
}

const (
	// beginTime is how long a cluster whose LOG was made anew is waited for.
	beginTime = time.Minute
	lookEvery = 50 * time.Millisecond
)

// ClusterPromote hands over.
type ClusterPromote struct {
	Node string `arg:"" help:"Name of the node that is to be the sequencer."`
	Directory
}

// Help is shown by --help.
func (ClusterPromote) Help() string {
	return `Asks the server that runs on the directory, which may be any node. The sequencer ends what
it has under way; what comes meanwhile waits for the new one, usually for less than half a
second. The command returns once that one writes the log. Webhooks and the like follow.

A node that does not answer, is behind, or cannot record anything cannot become it. A node
that is stopped in order hands over by itself. If the node is the sequencer already, nothing
changes.`
}

// Run hands over.
func (c ClusterPromote) Run(a *cli.App) error {
	m, err := runningNode(a, c.Directory)
	if err != nil {
		return err
	}
	all, err := nodesOf(a.Ctx, m, http.MethodGet, "/admin/cluster")
	if err != nil {
		return err
	}
	var names, was string
	known := false
	for _, n := range all {
		names += " " + n.Node
		known = known || n.Node == c.Node
		if n.Role == wire.RoleSequencer {
			was = n.Node
		}
	}
	if !known {
		return cli.Errorf(cli.ExitUsage, "%q is none of the nodes:%s", c.Node, names)
	}
	result := map[string]any{"node": c.Node, "was": was}
	if was == c.Node {
		return a.Print(result, "node %s is the sequencer already\n", c.Node)
	}
	if _, err := nodesOf(a.Ctx, m, http.MethodPost, "/admin/cluster/"+c.Node+"/promote"); err != nil {
		return err
	}
	if was != "" {
		if err := a.Note("node " + was + " has handed over to node " + c.Node); err != nil {
			return err
		}
	}
	return a.Print(result, "node %s is the sequencer now\n", c.Node)
}

// keysTime is how long a node that takes part may take until it tells its key.
const keysTime = 5 * time.Second

// ClusterWitnesses prints the nodes' public keys.
type ClusterWitnesses struct{ Directory }

// Help is shown by --help.
func (ClusterWitnesses) Help() string {
	return `Each node compares every checkpoint with its own copy of the log and signs it too, with a key
that no other node has. Keep these public keys in a file, out of the operators' reach, and give
it to "payledger verify --witness-key FILE": it says how many machines vouch for a checkpoint.

Exit code 1: the key of a node that does not answer is not known here, or no server answers.`
}

// Run prints the keys, one on each line.
func (c ClusterWitnesses) Run(a *cli.App) error {
	m, err := runningNode(a, c.Directory)
	if err != nil {
		return err
	}
	var all []wire.Node
	for until := time.Now().Add(keysTime); ; {
		if all, err = nodesOf(a.Ctx, m, http.MethodGet, "/admin/cluster"); err != nil {
			return err
		}
		starting := slices.ContainsFunc(all, func(n wire.Node) bool { return n.WitnessKey == "" && n.Role != wire.RoleSilent })
		if !starting || time.Now().After(until) || !health.Pause(a.Ctx, lookEvery) {
			break
		}
	}
	keys := make(map[string]string)
	for _, n := range all {
		if n.WitnessKey == "" {
			err = errors.Join(err, fmt.Errorf("the key of node %s is not known: %s", n.Node, n.Trouble))
			continue
		}
		keys[n.Node] = n.WitnessKey
		if !a.JSON {
			fmt.Fprintln(a.Stdout, n.WitnessKey)
		}
	}
	if a.JSON {
		err = errors.Join(err, a.PrintJSON(keys))
	}
	return err
}

// EndCluster ends the cluster, so that the node of the directory goes on alone.
func EndCluster(a *cli.App, c Directory) error {
	m, err := runningNode(a, c)
	if err != nil {
		return err
	}
	_, err = nodesOf(a.Ctx, m, http.MethodPost, "/admin/cluster/end")
	return err
}

// ClusterRebase creates a lost LOG again.
type ClusterRebase struct{ Directory }

// Help is shown by --help.
func (ClusterRebase) Help() string {
	return `For a cluster whose nodes all wait, because the common write-ahead log is lost: nats-cluster/
was removed on all three machines. Every payment that was answered is in the nodes' own logs. While all three nodes are served, give the command
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
func (c ClusterRebase) Run(a *cli.App) error {
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
