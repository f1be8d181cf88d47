package clusternode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"payledger/cmd/freeports"
	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
)

// Demo runs the three nodes of a cluster on this machine, each as a separate process, so that one
// of them can be killed.
type Demo struct {
	Command []string // runs a node, without the flags for its directory and address
	Dir     string   // has a directory for each node
	Listen  string   // address of the first; the others have the next ports. With port 0 all are free ones
	Stderr  io.Writer
}

// demoNames are those of the nodes, and of their directories.
func demoNames() []string { return []string{"a", "b", "c"} }

// first is the directory of the first node.
func (d Demo) first() datadir.Dir { return datadir.Dir(filepath.Join(d.Dir, demoNames()[0])) }

// prepare makes the directory of the first node, or takes the one that is there. The others join it
// when they run for the first time.
func (d Demo) prepare(ctx context.Context) error {
	addresses, err := freeports.Addresses("127.0.0.1", size)
	if err != nil {
		return err
	}
	var nodes []Address
	for i, name := range demoNames() {
		nodes = append(nodes, Address{name, addresses[i]})
	}
	first := d.first()
	if first.MustExist() != nil {
		if err := os.MkdirAll(d.Dir, 0o700); err != nil {
			return err
		}
		if err := first.Initialise(); err != nil {
			return err
		}
	}
	c, err := Load(first)
	if err == nil && c == nil {
		_, err = Init(ctx, first, nodes)
	}
	return err
}

// join makes a node's directory, unless it is there. The first node runs, or is about to.
func (d Demo) join(ctx context.Context, n DemoNode) error {
	dir := datadir.Dir(n.Data)
	if dir == d.first() || dir.MustExist() == nil {
		return nil
	}
	c, err := Load(d.first())
	if err != nil {
		return err
	}
	if _, err := Join(ctx, dir, c.Own(), c.key, n.Name, func(eventstore.Position, eventstore.Position) {}); err != nil {
		return fmt.Errorf("making node %s: %w", n.Name, err)
	}
	return nil
}

// listens are the addresses at which the nodes listen.
func (d Demo) listens() (all []string, err error) {
	host, port, err := net.SplitHostPort(d.Listen)
	first, numberErr := strconv.Atoi(port)
	if err = errors.Join(err, numberErr); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "--listen %s: want HOST:PORT, with a number for the port", d.Listen)
	}
	if first == 0 {
		return freeports.Addresses(host, size)
	}
	for i := range size {
		all = append(all, net.JoinHostPort(host, strconv.Itoa(first+i)))
	}
	return all, nil
}

// Run runs the nodes until ctx ends. ready is called once all are ready. A node that exits after
// that, or is killed, is started again; before, Run ends with an error.
func (d Demo) Run(ctx context.Context, ready func([]DemoNode) error) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	listens, err := d.listens()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	up := make(chan DemoNode, size)
	for i, name := range demoNames() {
		n := DemoNode{Name: name, Data: filepath.Join(d.Dir, name)}
		group.Go(func() error { return d.keep(ctx, n, listens[i], up) })
	}
	group.Go(func() error {
		var all []DemoNode
		for range size {
			select {
			case n := <-up:
				all = append(all, n)
			case <-ctx.Done():
				return nil
			}
		}
		slices.SortFunc(all, func(a, b DemoNode) int { return strings.Compare(a.Name, b.Name) })
		return ready(all)
	})
	return group.Wait()
}
