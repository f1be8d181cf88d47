// Package demonodes runs the three nodes of a cluster on this machine, each as a separate process,
// so that one of them can be killed.
package demonodes

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
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/eventstore"
)

// Config says how the nodes run.
type Config struct {
	Command []string // runs a node, without the flags for its directory and address
	Dir     string   // has a directory for each node
	Listen  string   // address of the first; the others have the next ports. With port 0 all are free ones
	Stderr  io.Writer
}

// names are those of the nodes, and of their directories.
func names() []string { return []string{"a", "b", "c"} }

// Make makes the directory of the first node, or the one that is there. The others join it
// when they run for the first time.
func Make(ctx context.Context, dir string) error {
	addresses, err := freeAddresses("127.0.0.1")
	if err != nil {
		return err
	}
	var all []string
	for i, name := range names() {
		all = append(all, name+"="+addresses[i])
	}
	nodes, err := clusternode.ParseNodes(strings.Join(all, ","))
	if err != nil {
		return err
	}
	first := datadir.Dir(filepath.Join(dir, nodes[0].Name))
	if first.MustExist() != nil {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := first.Initialise(); err != nil {
			return err
		}
	}
	c, err := clusternode.Load(first)
	if err == nil && c == nil {
		_, err = clusternode.Init(ctx, first, nodes)
	}
	return err
}

// join makes a node's directory, unless it is there. The first node runs, or is about to.
func join(ctx context.Context, c Config, n Node) error {
	first, d := datadir.Dir(filepath.Join(c.Dir, names()[0])), datadir.Dir(n.Data)
	if n.Name == names()[0] || d.MustExist() == nil {
		return nil
	}
	cluster, err := clusternode.Load(first)
	if err != nil {
		return err
	}
	key, err := clusternode.ReadKey(first.ClusterKey())
	if err == nil {
		_, err = clusternode.Join(ctx, d, cluster.Own(), key, n.Name, func(eventstore.Position, eventstore.Position) {})
	}
	if err != nil {
		return fmt.Errorf("making node %s: %w", n.Name, err)
	}
	return nil
}

// freeAddresses are addresses that nothing listens at.
func freeAddresses(host string) ([]string, error) {
	all, err := freeports.Addresses(host, len(names()))
	if err != nil {
		err = cli.WithCode(cli.ExitFailed, err)
	}
	return all, err
}

// listens are the addresses at which the nodes listen.
func (c Config) listens() (all []string, err error) {
	host, port, err := net.SplitHostPort(c.Listen)
	first, numberErr := strconv.Atoi(port)
	if err = errors.Join(err, numberErr); err != nil {
		return nil, cli.Errorf(cli.ExitUsage, "--listen %s: want HOST:PORT, with a number for the port", c.Listen)
	}
	if first == 0 {
		return freeAddresses(host)
	}
	for i := range names() {
		all = append(all, net.JoinHostPort(host, strconv.Itoa(first+i)))
	}
	return all, nil
}

// Run runs the nodes until ctx ends. ready is called once all are ready. A node that exits after
// that, or is killed, is started again; before, Run ends with an error.
func Run(ctx context.Context, c Config, ready func([]Node) error) error {
	listens, err := c.listens()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	up := make(chan Node, len(listens))
	for i, name := range names() {
		n := Node{Name: name, Data: filepath.Join(c.Dir, name), listen: listens[i]}
		group.Go(func() error { return keep(ctx, c, n, up) })
	}
	group.Go(func() error {
		var all []Node
		for range listens {
			select {
			case n := <-up:
				all = append(all, n)
			case <-ctx.Done():
				return nil
			}
		}
		slices.SortFunc(all, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
		return ready(all)
	})
	return group.Wait()
}
