package clusternode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"syscall"
	"time"

	"github.com/go-json-experiment/json"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/peer"
	"payledger/notifier/health"
)

const (
	joinPath = "/join"
	joinTime = 10 * time.Second // to be told about the cluster
	maxJoin  = 1 << 20
)

// joinAnswer is what a node tells a new one.
type joinAnswer struct {
	Ledger     domain.ID           `json:"ledger"`
	Nodes      []Address           `json:"nodes"`
	Position   eventstore.Position `json:"position"`   // of the log's end
	Keys       string              `json:"keys"`       // see datadir.ParseKeys
	Checkpoint string              `json:"checkpoint"` // the newest
}

// Join makes a new directory a node of the cluster that the key is of: it gets all it needs
// from the node at an address, which has to be served. What an earlier attempt has left is
// used. The log comes last: a directory without it is no data directory yet.
func Join(ctx context.Context, d datadir.Dir, from string, key []byte, node string, progress func(done, total eventstore.Position)) (_ *Cluster, err error) {
	c := &Cluster{Format: format, Node: node, key: key}
	conf, err := c.tls()
	if err != nil {
		return nil, err
	}
	if err := d.Make(append(datadir.PackedFiles(), "checkpoint", "cluster.json", "cluster.key", "witness.key")...); err != nil {
		return nil, err
	}
	client := peer.ClientOf(conf, from)
	defer client.CloseIdleConnections()
	a, err := askToJoin(ctx, client)
	if err != nil {
		return nil, cli.Errorf(cli.ExitFailed, "asking the node at %s: %w", from, err)
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
	if err := copyLog(ctx, client, peer.URL(""), false, d, c.Ledger, func(p eventstore.Position) { progress(p, max(p, a.Position)) }); err != nil {
		return nil, fmt.Errorf("copying the log, join again: %w", err)
	}
	return c, nil
}

func askToJoin(ctx context.Context, client *http.Client) (a joinAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTime)
	defer cancel()
	ask := func() (io.ReadCloser, error) {
		return replog.Request(ctx, client, http.MethodGet, peer.URL("")+joinPath, nil)
	}
	answer, err := ask()
	for errors.Is(err, syscall.ECONNREFUSED) && health.Pause(ctx, time.Second/10) { // it has just been started
		answer, err = ask()
	}
	if err != nil {
		return a, err
	}
	defer func() { _ = answer.Close() }()
	err = json.UnmarshalRead(io.LimitReader(answer, maxJoin), &a)
	return a, err
}

// copyLog makes the log of a directory with all records of the node at a URL; with ready, only
// of the leader.
func copyLog(ctx context.Context, client *http.Client, url string, ready bool, d datadir.Dir, ledger domain.ID, progress func(eventstore.Position)) (err error) {
	work, err := datadir.NewScratch(string(d), d.Files()...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, work.Remove()) }()
	file := work.File("ledger.db")
	if err := bolt.Init(file, ledger); err != nil {
		return err
	}
	store, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		return err
	}
	_, err = replog.Copy(ctx, client, url, ready, store, progress)
	if err := errors.Join(err, store.Close()); err != nil {
		return err
	}
	return datadir.MoveInto(file, d.Ledger(), false)
}
