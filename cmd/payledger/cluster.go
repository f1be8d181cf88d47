package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"payledger/cmd/payledger/admincmd"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/cmd/payledger/noderebuild"
	"payledger/eventstore"
)

// clusterCmd are the commands about a cluster of three nodes.
type clusterCmd struct {
	Init   clusterInitCmd         `cmd:"" help:"Make a data directory the first node of a new cluster."`
	Invite clusterInviteCmd       `cmd:"" help:"Let a node join: print a token for it, and wait until it has."`
	Join   clusterJoinCmd         `cmd:"" help:"Make a data directory that is another node of a cluster."`
	Begin  clusterBeginCmd        `cmd:"" hidden:""`
	Status admincmd.ClusterStatus `cmd:"" help:"Show the nodes of a cluster, as one of them sees them."`

	Promote   admincmd.ClusterPromote   `cmd:"" help:"Make a node the sequencer."`
	Leave     clusterLeaveCmd           `cmd:"" help:"Make a stopped node's directory one that is alone again."`
	Witnesses admincmd.ClusterWitnesses `cmd:"" help:"Print the keys with which the nodes vouch for checkpoints."`
	Rebuild   clusterRebuildCmd         `cmd:"" help:"Make the log of a node anew from another node's."`
	Rebase    admincmd.ClusterRebase    `cmd:"" help:"Make the common write-ahead log anew that the NATS servers have lost."`
}

// Help is shown by --help.
func (clusterCmd) Help() string {
	return `Each node is a payledger with a whole copy of the log. A payment is recorded once two of
the three have it on disk, so any one may fail. All of them answer every request.

On the first machine:
  payledger init --data DIR
  payledger cluster init a=10.0.0.1:7400 b=10.0.0.2:7400 c=10.0.0.3:7400 --data DIR
  payledger cluster invite b --data DIR     (prints a token)
  payledger cluster invite c --data DIR

On each of the others:
  payledger cluster join TOKEN --data DIR

Then, on all three, "payledger serve --data DIR" with the same flags. A directory that is in
use already becomes the first node the same way: stop its server before "cluster init". It is
served again, with all that it has, once the other two have joined.`
}

// nodeListen is the flag of every command that runs a node.
type nodeListen struct {
	NodeListen members.ListenAddress `help:"Address that a node of a cluster takes for the others, where it is not the one at which they reach it, as behind NAT or in a container: HOST:PORT or :PORT. Default: the one it has in the cluster." placeholder:"ADDR"`
}

// clusterInitCmd begins a cluster.
type clusterInitCmd struct {
	admincmd.Directory
	Nodes []string `arg:"" name:"node" help:"The three nodes, this one first: NAME=HOST:PORT, at which the others reach it. Where that is none of the machine's own, see --node-listen of serve."`
}

// Help is shown by --help.
func (clusterInitCmd) Help() string {
	return `The log of the directory becomes that of the cluster. No server may run on the directory: stop
it first. Nothing can be added to the log until all three nodes run, so the time without
payments is what the two others take to copy it. Names and addresses stay as they are.

cluster.json in the directory holds the node's certificate and key, and here, on the first
node, the key with which others are let in: keep a copy with that of master.key.`
}

// Run makes the directory a node.
func (c clusterInitCmd) Run(a *cli.App) error {
	var all []members.Address
	for _, text := range c.Nodes {
		one, err := members.ParseAddress(text)
		if err != nil {
			return cli.WithCode(cli.ExitUsage, err)
		}
		all = append(all, one)
	}
	m, err := members.Init(a.Ctx, datadir.Dir(c.Data), all)
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"data": c.Data, "cluster": m.Cluster, "node": m.Node, "nodes": m.Members},
		"%[1]s is node %[2]s of cluster %[3]s.\n\nNext, for each of the other two:\n  payledger cluster invite %[4]s --data %[5]s\n  payledger cluster invite %[6]s --data %[5]s\nThen, on all three:\n  payledger serve --data %[5]s\n",
		c.Data, m.Node, m.Cluster, all[1].Name, shellWord(c.Data), all[2].Name)
}

// clusterBeginCmd was how a cluster began while its first node was served.
type clusterBeginCmd struct {
	Data string `hidden:"" env:"-"`
}

// Run says what to do instead.
func (clusterBeginCmd) Run(*cli.App) error {
	return cli.Errorf(cli.ExitUsage, "a directory does not move into a cluster while it is served: stop its server, give \"payledger cluster init\", let the other two nodes join, then start all three")
}

// clusterInviteCmd lets a node join.
type clusterInviteCmd struct {
	admincmd.Directory
	Node    string                `arg:"" help:"Name of the node that is to join."`
	For     time.Duration         `help:"How long the token is valid." default:"1h"`
	Address string                `help:"Address of this machine at which the new node reaches this command. Default: this node's, which is taken once the cluster runs." placeholder:"HOST:PORT" env:"-"`
	Listen  members.ListenAddress `help:"Address of this machine that is taken, where what is sent to --address comes in at another one, as behind NAT or in a container. Default: --address." placeholder:"ADDR" env:"-"`
}

// Help is shown by --help.
func (clusterInviteCmd) Help() string {
	return `On the first node, whether a server runs there or not. The token is good for one node and for
one time: with it go the keys and the log, so hand it over as you would a password. The command
waits at the address until the other one has joined, or the time is over. What is added to the
log meanwhile the new node gets when it is served.`
}

// Run waits for the node.
func (c clusterInviteCmd) Run(a *cli.App) error {
	if c.For <= 0 {
		return cli.Errorf(cli.ExitUsage, "--for %v: want a time above 0", c.For)
	}
	ctx, cancel := context.WithTimeout(a.Ctx, c.For)
	defer cancel()
	log := func(begin func(eventstore.Position, int64) (io.Writer, error)) error {
		return backupCmd{Directory: c.Directory}.copyLog(a, begin)
	}
	err := members.Invite(ctx, datadir.Dir(c.Data), c.Node, c.Address, c.Listen, log, func(t members.Token) error {
		valid := time.Now().Add(c.For).UTC().Truncate(time.Second)
		return a.Print(map[string]any{"node": c.Node, "token": t.String(), "address": t.Address, "fingerprint": t.Fingerprint, "expires_at": valid},
			"Run this where node %s is to be, before %s:\n  payledger cluster join %s --data DIR\n", c.Node, valid.Format(time.RFC3339), t)
	})
	if err != nil {
		return err
	}
	return a.Note("node " + c.Node + " has joined")
}

// clusterJoinCmd makes a node.
type clusterJoinCmd struct {
	Token string `arg:"" help:"What payledger cluster invite printed."`
	Data  string `help:"Directory to make." required:"" placeholder:"DIR"`
}

// Validate refuses an empty name, as for the commands that use the directory.
func (c clusterJoinCmd) Validate() error { return admincmd.Directory{Data: c.Data}.Validate() }

// Help is shown by --help.
func (clusterJoinCmd) Help() string {
	return `The directory gets the log, the keys and a certificate from the node that printed the token.
The token names that node's address and the fingerprint of the cluster; nothing is sent to,
or taken from, a program that cannot show the certificate for it.`
}

// Run makes the directory.
func (c clusterJoinCmd) Run(a *cli.App) error {
	m, err := members.Join(a.Ctx, datadir.Dir(c.Data), c.Token, a.Stderr)
	if err != nil {
		return err
	}
	return a.Print(map[string]any{"data": c.Data, "cluster": m.Cluster, "node": m.Node, "nodes": m.Members},
		"%[1]s is node %[2]s of cluster %[3]s. Once all three nodes have joined:\n  payledger serve --data %[4]s\n",
		c.Data, m.Node, m.Cluster, shellWord(c.Data))
}

// clusterLeaveCmd ends a cluster.
type clusterLeaveCmd struct {
	admincmd.Directory
	End      bool    `help:"End the cluster while it runs: this node goes on alone."`
	Force    string  `help:"Why the cluster cannot end in order: what happened to the other machines." placeholder:"REASON"`
	Position *uint64 `help:"With --force, of the last event: the greatest that the directories show."`
}

// Help is shown by --help.
func (clusterLeaveCmd) Help() string {
	return `While the nodes run, "payledger cluster leave --end --data DIR" on the one that is to go on ends
the cluster: its log gets an end that names this node, and no node answers any more. Stop all
servers; then "payledger cluster leave --data DIR" on that node makes its directory one that is
alone, with every payment that was answered. The directories of the others are refused from then
on: remove them.

If the cluster cannot run any more, stop what is left. On each directory that is left,
"payledger cluster leave --data DIR" shows how far it has come, and changes nothing. Then, on the
one that has come farthest, the same with --force REASON and --position, the greatest that was
shown. What only lost machines had is lost, at most the payments of their last moments.
Two directories that were both made alone this way, and served, are two histories of one log.`
}

// Run shows how far the directory has come, or takes it out of its cluster.
func (c clusterLeaveCmd) Run(a *cli.App) (err error) {
	d := datadir.Dir(c.Data)
	switch forced := c.Force != ""; {
	case (c.Position != nil) != forced:
		return cli.Errorf(cli.ExitUsage, "--force and --position are given together")
	case c.End && forced:
		return cli.Errorf(cli.ExitUsage, "--end is for a cluster that runs, --force for one that cannot")
	case c.End:
		if err := admincmd.EndCluster(a, c.Directory); err != nil {
			return err
		}
		return a.Print(map[string]any{"data": c.Data, "ended": true},
			"The cluster has ended. Stop the servers of all nodes, then:\n  payledger cluster leave --data %s\n", shellWord(c.Data))
	}
	l, err := members.Leave(a.Ctx, d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	position := uint64(l.Position)
	result := map[string]any{"data": c.Data, "node": l.Node, "position": position, "left": c.Position != nil || l.Heir == l.Node}
	switch {
	case l.Heir == l.Node:
	case c.Position == nil && l.Heir != "":
		return cli.Errorf(cli.ExitRefused, "the cluster has ended, and node %s goes on alone: never serve %s again. "+
			"Only if the directory of node %[1]s is lost for good: payledger cluster leave --data %[3]s --position %[4]d --force REASON",
			l.Heir, d, shellWord(c.Data), position)
	case c.Position == nil:
		return a.Print(result, "%[1]s has come to position %[2]d. The cluster has not ended: if two nodes can run, start them and use --end. "+
			"If they cannot, and no other node has come farther:\n  payledger cluster leave --data %[3]s --position %[2]d --force REASON\n",
			c.Data, position, shellWord(c.Data))
	case position != *c.Position:
		return cli.Errorf(cli.ExitDirectory, "%s has come to position %d, not %d: take the directory that has come farthest", d, position, *c.Position)
	}
	if err := l.Finish(); err != nil {
		return err
	}
	return a.Print(result, "%s is in no cluster any more. Now:\n  payledger serve --data %s\nNever serve the directories of the other nodes again: remove them.\n", c.Data, shellWord(c.Data))
}

// clusterRebuildCmd makes a node's log anew.
type clusterRebuildCmd struct {
	admincmd.Directory
	nodeListen
	From string `help:"Node whose log is taken. Default: the first that can give it." placeholder:"NODE"`
}

// Help is shown by --help.
func (clusterRebuildCmd) Help() string {
	return `For a node whose ledger.db is lost or damaged, whose log differs from the others' (stopped),
or that is further behind than they can tell. No server may run on the directory; the other
two have to serve. What is needed of the directory is cluster.json and the keys.

The log is copied from another node, read from end to end, and compared with the logs of all
nodes that answer, before it takes the place of ledger.db. What is replaced is kept beside it as
*.replaced-TIME. If the command is interrupted, run it again.

A copy that lacks what this node's newest checkpoint says was signed is refused.`
}

// Run makes the log.
func (c clusterRebuildCmd) Run(a *cli.App) error {
	done, err := noderebuild.Run(a.Ctx, datadir.Dir(c.Data), c.From, c.NodeListen, a.Stderr)
	if err != nil {
		return err
	}
	if a.JSON {
		return a.PrintJSON(done)
	}
	fmt.Fprintf(a.Stdout, "Node      %s\nFrom      %s\nPosition  %d\n", done.Node, done.From, done.Position)
	for _, name := range done.Kept {
		fmt.Fprintf(a.Stdout, "Kept      %s\n", name)
	}
	_, err = fmt.Fprintf(a.Stdout, "\nNext: payledger serve --data %s\n", shellWord(c.Data))
	return err
}
