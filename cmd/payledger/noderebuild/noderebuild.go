// Package noderebuild makes the log of a node anew from another node's.
//
// A node whose ledger.db is lost or damaged, differs from the others', or is further
// behind than they can tell, takes a copy of another node's file while its own server does
// not run. The copy is read from end to end, and the root of its tree has to be that of
// every other node that answers, before it takes the place of the own file. What is replaced
// stays beside it.
package noderebuild

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/cmd/payledger/nodewitness"
	"payledger/eventstore"
	"payledger/eventstore/boltfile"
	"payledger/eventstore/diskspace"
	"payledger/eventstore/translog"
	"payledger/notifier/filecopy"
)

func subject(m *members.Member, node string) string {
	return "payledger.node." + m.Cluster.String() + "." + node + ".ledger"
}

// room fails if a disk has no room for a copy of so many bytes.
func room(d datadir.Dir, size int64) error {
	free, err := diskspace.Free(string(d))
	if need := uint64(size) + diskspace.DefaultFloor; err == nil && free < need {
		err = cli.Errorf(cli.ExitDirectory, "the disk of %s has no room for the copy of the log: %d bytes are free, and it takes %d", d, free, need)
	}
	return err
}

// Serve gives other nodes copies of this one's log, with all that was acknowledged when
// they ask, until Close.
func Serve(ctx context.Context, n *members.Node, d datadir.Dir) (*filecopy.Server, error) {
	return filecopy.Serve(n.Conn.NATS(), subject(n.Member, n.Node), string(d), func(w io.Writer) error {
		if err := n.Store.CatchUp(ctx); err != nil {
			return fmt.Errorf("its log is not that of the cluster just now: %w", err)
		}
		return n.Store.Backup(ctx, func(_ eventstore.Position, size int64) (io.Writer, error) { return w, room(d, size) })
	})
}

// Done says what was done.
type Done struct {
	Data     string              `json:"data"`
	Node     string              `json:"node"`
	From     string              `json:"from"`
	Position eventstore.Position `json:"position"` // at which the copy ends
	Kept     []string            `json:"kept"`     // what was replaced
}

// Run makes the log of a directory anew from that of a node; if none is named, from the
// first that can give it. listen is members.Member.Listen.
func Run(ctx context.Context, d datadir.Dir, from string, listen members.ListenAddress, stderr io.Writer) (_ *Done, err error) {
	m, err := members.Load(d)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, cli.Errorf(cli.ExitDirectory, "%s is in no cluster: put a backup there with \"payledger restore\"", d)
	}
	peers := make([]string, 0, len(m.Members))
	for _, p := range m.Peers() {
		if from == "" || from == p.Name {
			peers = append(peers, p.Name)
		}
	}
	if len(peers) == 0 {
		return nil, cli.Errorf(cli.ExitUsage, "--from %s: that is none of the other nodes", from)
	}
	m.Listen = listen
	n, err := m.Visit(ctx, d, zerolog.Nop())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	var errs []error
	for _, peer := range peers {
		done, err := rebuild(ctx, n, d, peer, stderr)
		if e, known := errors.AsType[*cli.ExitError](err); err == nil || known && e.Code == cli.ExitRefused {
			return done, err
		}
		errs = append(errs, fmt.Errorf("from node %s: %w", peer, err))
	}
	return nil, cli.Errorf(cli.ExitFailed, "no log could be taken: %w", errors.Join(errs...))
}

// rebuild takes the log of one node.
func rebuild(ctx context.Context, n *members.Node, d datadir.Dir, peer string, stderr io.Writer) (_ *Done, err error) {
	work, err := datadir.NewScratch(string(d), d.Files()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	tmp, err := datadir.CreatePrivate(work.File("ledger.db"))
	if err != nil {
		return nil, err
	}
	err = filecopy.Fetch(ctx, n.Conn.NATS(), subject(n.Member, peer), func(size int64) (io.Writer, error) {
		return cli.BytesProgress(tmp, stderr, "Copying the log", size), room(d, size)
	})
	if err := errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return nil, err
	}
	expected, err := readExpected(n.Member, d)
	if err != nil {
		return nil, err
	}
	p, err := datadir.VerifyFile(ctx, tmp.Name(), cli.Progress(stderr, "Checking the copy"), func(r eventstore.Stored) error {
		return expected.add(r)
	})
	if err == nil && p.Log != n.Ledger {
		err = fmt.Errorf("it is log %s, and the cluster keeps log %s", p.Log, n.Ledger)
	}
	if err != nil {
		return nil, fmt.Errorf("the log that came is not what it should be: %w", err)
	}
	for _, other := range n.Peers() {
		root, err := nodewitness.RootOf(ctx, n.Conn.NATS(), n.Member, other.Name, p.Last)
		if err == nil && root != expected.tree.Root() {
			return nil, cli.Errorf(cli.ExitRefused, "node %s has other events up to position %d than the copy: find out which node's log is right", other.Name, p.Last)
		}
	}
	done := &Done{Data: string(d), Node: n.Node, From: peer, Position: p.Last, Kept: []string{}}
	if expected.broken || expected.newest.Size > p.Last {
		return nil, cli.Errorf(cli.ExitRefused, "this node has signed or vouched for %d events, as %s proves, and the copy, of %d events, does not have all of them: "+
			"keep that file for the inquiry. Once it lies elsewhere the node can be made anew, and its witness key vouches for two logs from then on", expected.newest.Size, d.Checkpoint(), p.Last)
	}
	err = done.put(d, tmp.Name())
	return done, err
}

// expectedCheckpoint is the newest checkpoint that the node has signed or vouched for.
type expectedCheckpoint struct {
	newest translog.Checkpoint
	tree   *translog.Streaming
	broken bool // the copy has other events
}

func readExpected(m *members.Member, d datadir.Dir) (*expectedCheckpoint, error) {
	p := &expectedCheckpoint{tree: translog.NewStreaming()}
	signed, err := os.ReadFile(d.Checkpoint())
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := d.LogSigner(m.Ledger)
	if err != nil {
		return nil, err
	}
	v, err := translog.ParseVerifier(s.VerifierKey())
	if err != nil {
		return nil, err
	}
	if p.newest, err = v.Open(signed); err != nil {
		p.broken = true // it is put aside
		return p, nil   //nolint:nilerr // likewise
	}
	p.tree = translog.NewStreaming(p.newest)
	return p, nil
}

func (p *expectedCheckpoint) add(r eventstore.Stored) error {
	err := p.tree.Append(r.Body)
	if errors.As(err, new(*translog.MismatchError)) {
		p.broken, err = true, nil
	}
	return err
}

// put replaces the own log. At every moment the directory has a whole log or none; after
// a crash in between the node is rebuilt again. The projections are made anew.
func (o *Done) put(d datadir.Dir, tmp string) error {
	kept := d.Ledger() + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	switch err := os.Rename(d.Ledger(), kept); {
	case err == nil:
		o.Kept = append(o.Kept, kept)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := errors.Join(datadir.RemoveIfExists(d.Projections()), boltfile.SyncDir(string(d))); err != nil {
		return err
	}
	return datadir.MoveInto(tmp, d.Ledger(), false)
}
