package admincmd

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	return `Asks the server that runs on the directory, and it asks the other nodes. A node is

  leader    writes the log, collects payments, sends webhooks
  follower  takes part, and sends requests on to the leader
  stopped   its log differs: stop its server, move ledger.db away, start it again
  waiting   for other nodes: there is no leader
  silent    does not answer

LAG is how many groups of commits the node knows of and does not have yet.

Exit code 0: all nodes take part, one of them as the leader; 1: they do not, or no server answers.`
}

// nodes asks the server that runs on a node's directory for the nodes.
func (c Directory) nodes(a *cli.App) (m *cli.Client, all []wire.Node, err error) {
	switch m, err = c.Running(a); {
	case err != nil:
		return nil, nil, err
	case !datadir.Dir(c.Data).Clustered():
		return nil, nil, cli.Errorf(cli.ExitDirectory, "%s is in no cluster: \"payledger cluster init\" makes one", c.Data)
	case m == nil:
		return nil, nil, fmt.Errorf("no server answers on %s", c.Data)
	}
	var page wire.Page[wire.Node]
	err = m.Call(a.Ctx, http.MethodGet, "/admin/cluster", nil, &page)
	return m, page.Data, err
}

// Run shows the nodes.
func (c ClusterStatus) Run(a *cli.App) error {
	_, all, err := c.nodes(a)
	if err != nil {
		return err
	}
	var rows [][]string
	var apart error
	leads := func(n wire.Node) bool { return n.Role == wire.RoleLeader }
	if !slices.ContainsFunc(all, leads) {
		apart = errors.New("no node is the leader")
	}
	for _, n := range all {
		if a.JSON {
			err = errors.Join(err, a.PrintJSON(n))
		}
		if !leads(n) && n.Role != wire.RoleFollower {
			apart = errors.Join(apart, fmt.Errorf("node %s takes no part, it is %s", n.Node, strings.TrimSuffix(string(n.Role)+": "+n.Trouble, ": ")))
		}
		if n.Here {
			n.Node += " (here)"
		}
		if n.TroubleAt != nil {
			n.Trouble = n.TroubleAt.String() + " " + n.Trouble
		}
		rows = append(rows, texts(n.Node, n.Role, n.Version, n.Position, n.Lag, n.Trouble))
	}
	if !a.JSON {
		err = a.PrintTable("no nodes", []string{"NODE", "ROLE", "VERSION", "POSITION", "LAG", "TROUBLE"}, rows)
	}
	return errors.Join(err, apart)
}

// lookEvery is how often a node is asked again.
const lookEvery = 50 * time.Millisecond

// ClusterPromote makes another node the leader.
type ClusterPromote struct {
	Node string `arg:"" help:"Name of the node that is to be the leader."`
	Directory
}

// Help is shown by --help.
func (ClusterPromote) Help() string {
	return `Asks the server that runs on the directory, which may be any node. The leader ends what it
has under way; what comes meanwhile is refused (503, try again), usually for less than half a
second. The command returns once the new one writes the log. Webhooks and the like follow.

A node that does not answer, or cannot record anything, cannot become it. A leader that is
stopped in order has another node lead before. If the node is the leader already, nothing
changes.`
}

// Run asks for it.
func (c ClusterPromote) Run(a *cli.App) error {
	m, all, err := c.nodes(a)
	if err != nil {
		return err
	}
	var names, was string
	known := false
	for _, n := range all {
		names += " " + n.Node
		known = known || n.Node == c.Node
		if n.Role == wire.RoleLeader {
			was = n.Node
		}
	}
	if !known {
		return cli.Errorf(cli.ExitUsage, "%q is none of the nodes:%s", c.Node, names)
	}
	result := map[string]any{"node": c.Node, "was": was}
	if was == c.Node {
		return a.Print(result, "node %s is the leader already\n", c.Node)
	}
	if err := m.Call(a.Ctx, http.MethodPost, "/admin/cluster/"+c.Node+"/promote", nil, nil); err != nil {
		return err
	}
	if was != "" {
		_ = a.Note("node " + was + " leads no more, but node " + c.Node)
	}
	return a.Print(result, "node %s is the leader now\n", c.Node)
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
	var all []wire.Node
	var err error
	for until := time.Now().Add(keysTime); ; {
		if _, all, err = c.nodes(a); err != nil {
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
