package main

import (
	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
)

// clusterCmd are the commands about a cluster of three nodes.
type clusterCmd struct {
	Init   clusterInitCmd         `cmd:"" help:"Make a data directory the first node of a new cluster."`
	Join   clusterJoinCmd         `cmd:"" help:"Make a data directory that is another node of a cluster."`
	Status admincmd.ClusterStatus `cmd:"" help:"Show the nodes of a cluster, as one of them sees them."`

	Promote   admincmd.ClusterPromote   `cmd:"" help:"Make a node the leader."`
	Leave     clusterLeaveCmd           `cmd:"" help:"Make a stopped node's directory one that is alone again."`
	Witnesses admincmd.ClusterWitnesses `cmd:"" help:"Print the keys with which the nodes vouch for checkpoints."`
}

// Help is shown by --help.
func (clusterCmd) Help() string {
	return `Each node is a payledger with a whole copy of the log. A payment is recorded once two of
the three have it on disk, so any one may fail. One of them, the leader, writes the log; the
others send it the requests that come to them.

On the first machine, where "payledger init" has made the directory, or it is in use already
and its server is stopped:
  payledger cluster init --nodes a=10.0.0.1:7400,b=10.0.0.2:7400,c=10.0.0.3:7400 --data DIR
  payledger serve --data DIR

Copy cluster.key of the directory to the others, as you would a password. On each of them:
  payledger cluster join --from 10.0.0.1:7400 --key-file cluster.key --name b --data DIR
  payledger serve --data DIR

Payments are recorded again once all three are served for the first time; from then on, while
any two are. Give all nodes the same flags, the same --public-url and the same routes.`
}

// clusterInitCmd begins a cluster.
type clusterInitCmd struct {
	admincmd.Directory
	Nodes string `help:"The three nodes, this one first: NAME=HOST:PORT,NAME=HOST:PORT,NAME=HOST:PORT, at which the others reach each. Where that is none of the machine's own, see --node-listen of serve." required:"" placeholder:"LIST"`
}

// Help is shown by --help.
func (clusterInitCmd) Help() string {
	return `The log of the directory becomes that of the cluster. No server may run on the directory: stop
it first. Nothing can be added to the log until all three nodes run, so the time without
payments is what the two others take to copy it. Names and addresses stay as they are.

cluster.key in the directory is the secret by which the nodes know each other, and who has it
gets the other keys from them: keep it as you keep master.key.`
}

// Run makes the directory a node.
func (c clusterInitCmd) Run(a *cli.App) error {
	nodes, err := clusternode.ParseNodes(c.Nodes)
	if err != nil {
		return cli.Errorf(cli.ExitUsage, "--nodes: %w", err)
	}
	d := datadir.Dir(c.Data)
	made, err := clusternode.Init(a.Ctx, d, nodes)
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"data": c.Data, "cluster": made.Ledger, "node": made.Node, "nodes": made.Nodes, "key_file": d.ClusterKey()},
		"%[1]s is node %[2]s. Serve it:\n  payledger serve --data %[3]s\n\nThen copy %[4]s to the other two, and there:\n"+
			"  payledger cluster join --from %[5]s --key-file cluster.key --name %[6]s --data DIR\n"+
			"  payledger cluster join --from %[5]s --key-file cluster.key --name %[7]s --data DIR\nand serve them.\n",
		c.Data, made.Node, shellWord(c.Data), d.ClusterKey(), made.Own(), nodes[1].Name, nodes[2].Name)
}

// clusterJoinCmd makes a node.
type clusterJoinCmd struct {
	From    string `help:"Address of a node that is served: HOST:PORT, as in the list of \"cluster init\"." required:"" placeholder:"ADDR" env:"-"`
	KeyFile string `help:"A copy of that node's cluster.key." required:"" placeholder:"FILE" env:"-"`
	Name    string `help:"Name of the new node in the list of \"cluster init\"." required:"" placeholder:"NODE" env:"-"`
	Data    string `help:"Directory to make." required:"" placeholder:"DIR"`
}

// Validate refuses an empty name, as for the commands that use the directory.
func (c clusterJoinCmd) Validate() error { return admincmd.Directory{Data: c.Data}.Validate() }

// Help is shown by --help.
func (clusterJoinCmd) Help() string {
	return `The directory gets the log and the keys from the node at the address. Nothing is sent to, or
taken from, a program that has not the same key. A directory that is lost is made again by the
same command. If it is interrupted, run it again.`
}

// Run makes the directory.
func (c clusterJoinCmd) Run(a *cli.App) error {
	key, err := clusternode.ReadKey(c.KeyFile)
	if err != nil {
		return err
	}
	copied := cli.Progress(a.Stderr, "Copying the log")
	made, err := clusternode.Join(a.Ctx, datadir.Dir(c.Data), c.From, key, c.Name, copied)
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"data": c.Data, "cluster": made.Ledger, "node": made.Node, "nodes": made.Nodes},
		"%s is node %s. Now:\n  payledger serve --data %s\n", c.Data, made.Node, shellWord(c.Data))
}

// clusterLeaveCmd ends a cluster.
type clusterLeaveCmd struct {
	admincmd.Directory
	Position *uint64 `help:"Of the last event: the greatest that the directories show." placeholder:"N"`
}

// Help is shown by --help.
func (clusterLeaveCmd) Help() string {
	return `Stop the servers of all nodes. On each directory that is left, "payledger cluster leave --data
DIR" shows how far it has come, and changes nothing. Then, on the one that has come farthest, the
same with --position, the greatest that was shown: its directory is one that is alone.

If two of the three are there, nothing that was answered is lost. What only lost machines had is
lost, at most the payments of their last moments. Never serve the directories of the other nodes
again, remove them: two that go on apart are two histories of one log.`
}

// Run shows how far the directory has come, or takes it out of its cluster.
func (c clusterLeaveCmd) Run(a *cli.App) error {
	d := datadir.Dir(c.Data)
	last, err := clusternode.Leave(a.Ctx, d, (*eventstore.Position)(c.Position))
	if err != nil {
		return err
	}
	result := map[string]any{"data": c.Data, "position": last, "left": c.Position != nil}
	if c.Position == nil {
		return a.Print(result, "%[1]s has come to position %[2]d. If no other node has come farther:\n  payledger cluster leave --data %[3]s --position %[2]d\n",
			c.Data, last, shellWord(c.Data))
	}
	return a.Print(result, "%s is in no cluster any more. Now:\n  payledger serve --data %s\nNever serve the directories of the other nodes again: remove them.\n", c.Data, shellWord(c.Data))
}
