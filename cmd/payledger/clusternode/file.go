// Package clusternode is how three data directories are the nodes of one cluster, and how
// one of them takes part while it is served.
//
// What a node needs to know is in two files of its directory. cluster.json names the three
// nodes with their addresses, which stay, and the event log that they keep together.
// cluster.key is the secret by which nodes know each other: their certificates follow from
// it (package peer), and the details of payments are encrypted under it in JetStream's files
// (package replog). It is the same on all nodes, and who has it gets the master key too.
//
// A new node is made with a copy of the key: it asks any node for the rest, the keys and the
// log. A node whose ledger.db is gone copies it from another node when it is served. Then the
// copy is compared with the newest checkpoint that the node has signed or co-signed, as the log
// of any directory is.
package clusternode

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore/bolt"
	"payledger/httpapi/peer"
)

// size is how many nodes a cluster has.
const size = 3

// format is that of cluster.json. Its number rises when an older program could not
// use the file.
const format = "payledger cluster 2"

// Address says where a node is reached by the others.
type Address struct {
	Name    string `json:"name"`
	Address string `json:"address"` // HOST:PORT
}

// String is the node as the list of "cluster init" has it.
func (a Address) String() string { return a.Name + "=" + a.Address }

// Cluster is a directory's part in a cluster: cluster.json and the key.
type Cluster struct {
	Format string    `json:"format"`
	Ledger domain.ID `json:"ledger"` // the id of the event log
	Node   string    `json:"node"`   // which one this directory is
	Nodes  []Address `json:"nodes"`

	key []byte
}

// namePattern keeps names fit for JetStream and for certificates.
var namePattern = regexp.MustCompile(`^[a-z0-9-]{1,16}$`)

// ParseNodes reads NAME=HOST:PORT,NAME=HOST:PORT,NAME=HOST:PORT.
func ParseNodes(text string) (nodes []Address, err error) {
	for one := range strings.SplitSeq(text, ",") {
		name, address, _ := strings.Cut(one, "=")
		host, port, err := net.SplitHostPort(address)
		n, portErr := strconv.ParseUint(port, 10, 16)
		switch {
		case !namePattern.MatchString(name):
			return nil, fmt.Errorf("%q: want NAME=HOST:PORT, where the name has up to 16 small letters, digits and hyphens", one)
		case err != nil, portErr != nil, n == 0, host == "":
			return nil, fmt.Errorf("%q: want NAME=HOST:PORT, an address at which the other nodes reach this one", one)
		case slices.ContainsFunc(nodes, func(a Address) bool { return a.Name == name || a.Address == address }):
			return nil, fmt.Errorf("%q: each node needs a name and an address of its own", one)
		}
		nodes = append(nodes, Address{name, address})
	}
	if len(nodes) != size {
		return nil, fmt.Errorf("%d nodes: a cluster has %d", len(nodes), size)
	}
	return nodes, nil
}

// Init makes a directory the first of these nodes. Its log becomes the cluster's. No server
// may run on it.
func Init(ctx context.Context, d datadir.Dir, nodes []Address) (*Cluster, error) {
	c := &Cluster{Format: format, Node: nodes[0].Name, Nodes: nodes, key: make([]byte, peer.KeySize)}
	_, _ = rand.Read(c.key) // never fails
	served, err := d.Reach(ctx, func() error {
		store, err := d.Open(bolt.Options{}) // nobody else has the directory
		if err != nil {
			return err
		}
		c.Ledger = store.LogID()
		_, err = Credentials(d) // the same on all nodes
		if err == nil {
			err = c.write(d)
		}
		return errors.Join(err, store.Close())
	})
	if served {
		return nil, cli.Errorf(cli.ExitInUse, "a server runs on %s: stop it, give the command again, then start all three nodes", d)
	}
	return c, err
}

// write writes both files, cluster.json last: without it the directory is alone.
func (c *Cluster) write(d datadir.Dir) error {
	b, err := json.Marshal(c, json.Deterministic(true), jsontext.WithIndent("  "))
	if err == nil {
		err = datadir.WriteFileSynced(d.ClusterKey(), []byte(hex.EncodeToString(c.key)+"\n"))
	}
	if err == nil {
		err = datadir.WriteFileSynced(d.Cluster(), append(b, '\n'))
	}
	if err != nil {
		return cli.Errorf(cli.ExitDirectory, "writing %s: %w", d.Cluster(), err)
	}
	return nil
}

// Load reads what a directory is in a cluster; nil: it is alone.
func Load(d datadir.Dir) (*Cluster, error) {
	switch {
	case d.Clustered():
	case datadir.Exists(d.ClusterNATS()):
		return nil, cli.Errorf(cli.ExitDirectory, "%[1]s was a node of a cluster, and its cluster.json is gone: put it back from a copy; "+
			"if the directory is to go on alone, which no other node's may, remove %[1]s/nats-cluster", d)
	default:
		return nil, nil // also where the directory is none: the next error says that better
	}
	b, err := os.ReadFile(d.Cluster())
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "%w", err)
	}
	c := new(Cluster)
	if err := json.Unmarshal(b, c); err != nil || c.Format != format {
		do := "put it back from a copy, or make the node again with \"payledger cluster join\""
		if err == nil && c.Format > format {
			do = "run the newer version that wrote it"
		}
		err = cmp.Or(err, fmt.Errorf("it is of the format %q, and this program knows %q", c.Format, format))
		return nil, cli.Errorf(cli.ExitDirectory, "%s cannot be read: %w; %s", d.Cluster(), err, do)
	}
	if c.key, err = ReadKey(d.ClusterKey()); err != nil {
		return nil, err
	}
	if _, known := c.address(c.Node); !known || len(c.Nodes) != size || c.Ledger.IsZero() {
		return nil, cli.Errorf(cli.ExitDirectory, "%s names no cluster of three nodes with this one among them: put it back from a copy", d.Cluster())
	}
	return c, nil
}

// ReadKey reads a file with the cluster's key.
func ReadKey(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, cli.Errorf(cli.ExitDirectory, "the cluster's key: %w: copy it from another node's directory", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(key) != peer.KeySize {
		return nil, cli.Errorf(cli.ExitDirectory, "%s: want %d hexadecimal digits: copy it from another node's directory", file, 2*peer.KeySize)
	}
	return key, nil
}

func (c *Cluster) address(node string) (string, bool) {
	i := slices.IndexFunc(c.Nodes, func(a Address) bool { return a.Name == node })
	if i < 0 {
		return "", false
	}
	return c.Nodes[i].Address, true
}

// Own is the address of this node.
func (c *Cluster) Own() string {
	own, _ := c.address(c.Node)
	return own
}

// Peers are the addresses of the other nodes, by name.
func (c *Cluster) Peers() map[string]string {
	peers := make(map[string]string, size-1)
	for _, a := range c.Nodes {
		if a.Name != c.Node {
			peers[a.Name] = a.Address
		}
	}
	return peers
}

// ListenAddress is an address of this machine: HOST:PORT, or :PORT for all of its interfaces.
type ListenAddress string

// UnmarshalText implements encoding.TextUnmarshaler.
func (a *ListenAddress) UnmarshalText(text []byte) error {
	_, port, err := net.SplitHostPort(string(text))
	if n, portErr := strconv.ParseUint(port, 10, 16); err != nil || portErr != nil || n == 0 {
		return fmt.Errorf("%q: want HOST:PORT or :PORT, with a port from 1 to 65535", text)
	}
	*a = ListenAddress(text)
	return nil
}

// tls is for both ends of the connections between nodes.
func (c *Cluster) tls() (*tls.Config, error) { return peer.TLS(c.key, c.Node) }
