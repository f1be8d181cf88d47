package clusternode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/peer"
)

const (
	joinPath = "/join"
	joinTime = 10 * time.Second // to be told about the cluster
	maxJoin  = 1 << 20
)

// joinAnswer is what a node tells a new one.
type joinAnswer struct {
	Ledger     domain.ID `json:"ledger"`
	Nodes      []Address `json:"nodes"`
	Keys       string    `json:"keys"`       // see datadir.ParseKeys
	Checkpoint string    `json:"checkpoint"` // the newest
}

// serveJoin answers a new node, which has shown that it has the cluster's key.
func (c *Cluster) serveJoin(d datadir.Dir, w http.ResponseWriter) {
	keys, err := d.PackKeys()
	checkpoint, readErr := os.ReadFile(d.Checkpoint())
	if err = errors.Join(err, readErr); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.MarshalWrite(w, joinAnswer{c.Ledger, c.Nodes, string(keys), string(checkpoint)}) // who is gone asks again
}

// Join makes a new directory a node of the cluster that the key is of: it gets all it needs
// from the node at an address, which has to be served. What an earlier attempt has left is
// used. The log comes last: a directory without it is no data directory yet.
func Join(ctx context.Context, d datadir.Dir, from string, key []byte, node string, progress func(eventstore.Position)) (_ *Cluster, err error) {
	c := &Cluster{Format: format, Node: node, key: key}
	conf, err := c.tls()
	if err != nil {
		return nil, err
	}
	if err := d.Make(append(datadir.PackedFiles(), "checkpoint", "cluster.json", "cluster.key")...); err != nil {
		return nil, err
	}
	client := peer.ClientOf(conf, from)
	defer client.CloseIdleConnections()
	a, err := askToJoin(ctx, client)
	if err != nil {
		return nil, cli.Errorf(cli.ExitRefused, "asking the node at %s: %w", from, err)
	}
	c.Ledger, c.Nodes = a.Ledger, a.Nodes
	if _, known := c.address(node); !known {
		return nil, cli.Errorf(cli.ExitUsage, "the cluster has no node %s: it has %v", node, c.Nodes)
	}
	pack, err := datadir.ParseKeys([]byte(a.Keys))
	if err != nil {
		return nil, err
	}
	for name, content := range pack.Files {
		if err := datadir.WriteFileSynced(d.File(name), []byte(content)); err != nil {
			return nil, err
		}
	}
	if err := datadir.WriteFileSynced(d.Checkpoint(), []byte(a.Checkpoint)); err != nil {
		return nil, err
	}
	if err := c.write(d); err != nil {
		return nil, err
	}
	work, err := datadir.NewScratch(string(d), d.Files()...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	if err := copyLog(ctx, client, work.File("ledger.db"), c.Ledger, progress); err != nil {
		return nil, fmt.Errorf("copying the log, join again: %w", err)
	}
	return c, datadir.MoveInto(work.File("ledger.db"), d.Ledger(), false)
}

func askToJoin(ctx context.Context, client *http.Client) (a joinAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, peer.URL("")+joinPath, http.NoBody)
	if err != nil {
		return a, err
	}
	reply, err := client.Do(r)
	if err != nil {
		return a, err
	}
	defer func() { _ = reply.Body.Close() }()
	if reply.StatusCode != http.StatusOK {
		return a, fmt.Errorf("it answers %s", reply.Status)
	}
	err = json.UnmarshalRead(io.LimitReader(reply.Body, maxJoin), &a)
	return a, err
}

// copyLog makes a log with all records of the node that the client asks.
func copyLog(ctx context.Context, client *http.Client, file string, ledger domain.ID, progress func(eventstore.Position)) error {
	if err := bolt.Init(file, ledger); err != nil {
		return err
	}
	store, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		return err
	}
	_, err = replog.Copy(ctx, client, peer.URL(""), false, store, progress)
	return errors.Join(err, store.Close())
}
