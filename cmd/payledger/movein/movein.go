// Package movein is how a data directory that is alone becomes the first node of a cluster
// while it is served, and what a node tells the operator that waits for the others.
//
// The other two nodes have copies of its log, and get what was added since (founding.Lend).
// When little is missing, the server stops what it does on the directory, with the log
// open and the requests waiting, founds LOG behind the last event, and goes on as a node.
// Until the directory is named a node (members.Begin), everything can go back; from
// then on nothing is recorded without the others.
package movein

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/founding"
	"payledger/notifier/bus/external"
	"payledger/notifier/health"
)

const (
	// mayLack is how many events a node may lack that is to begin, and newsTime how old
	// the news of that may be.
	mayLack  = 1000
	newsTime = 2 * time.Second

	// lookEvery is how often it is looked whether all can begin.
	lookEvery = 50 * time.Millisecond
)

// Moving is what a directory that was alone goes on with as a node: a NATS server that is
// connected to those of the others, and the log, which is open.
type Moving struct {
	Node *members.Node
	File *bolt.Store

	unlend func() error
}

// Prepare waits until the other nodes of a prepared directory can begin. The log is being
// written to meanwhile. If it fails, everything is as it was. Without a URL of servers the
// nodes have NATS servers of their own.
func Prepare(
	ctx context.Context, d datadir.Dir, file *bolt.Store, listen members.ListenAddress, servers external.Servers, log zerolog.Logger,
) (_ *Moving, err error) {
	m, err := members.Prepared(d)
	switch {
	case err != nil:
		return nil, err
	case m == nil:
		return nil, fmt.Errorf("%s is not prepared: \"payledger cluster init\" does that", d)
	}
	m.Listen, m.NATS = listen, servers
	next := &Moving{File: file}
	if next.Node, err = m.Enter(ctx, d, log); err != nil {
		return nil, err
	}
	if err := next.Node.CheckServers(ctx, log); err != nil {
		return nil, errors.Join(err, next.Node.Close())
	}
	heard := newsOf(m.Peers())
	if next.unlend, err = founding.Lend(context.WithoutCancel(ctx), next.Node.Conn.NATS(), m.Cluster, m.Node, file, heard.of); err != nil {
		return nil, errors.Join(err, next.Node.Close())
	}
	for {
		last, err := file.Last(ctx)
		if err != nil {
			return nil, errors.Join(err, next.Abandon())
		}
		missing := heard.missing(m.Peers(), last)
		if len(missing) == 0 {
			err := founding.Vacant(ctx, next.Node.Conn.JetStream())
			if err == nil {
				return next, nil
			}
			missing = []string{err.Error()}
		}
		if !health.Pause(ctx, lookEvery) {
			return nil, errors.Join(errors.New(strings.Join(missing, "; ")), next.Abandon())
		}
	}
}

// Abandon gives it up. The log stays open.
func (m *Moving) Abandon() error { return errors.Join(m.unlend(), m.Node.Close()) }

// Begun ends what is done for the other nodes until all take part.
func (m *Moving) Begun() error { return m.unlend() }

// news is how far the other nodes have come.
type news struct {
	mu  sync.Mutex
	all map[string]arrival // of each peer
}

type arrival struct {
	at   eventstore.Position
	when time.Time
}

func newsOf(peers []members.Address) *news {
	n := &news{all: make(map[string]arrival)}
	for _, p := range peers {
		n.all[p.Name] = arrival{}
	}
	return n
}

// of takes up how far a peer has come. The name is what the asker says.
func (n *news) of(node string, at eventstore.Position) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.all[node]; ok {
		n.all[node] = arrival{at, time.Now()}
	}
}

// missing says what keeps the other nodes from beginning.
func (n *news) missing(peers []members.Address, last eventstore.Position) (why []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range peers {
		switch a := n.all[p.Name]; {
		case time.Since(a.when) > newsTime:
			why = append(why, fmt.Sprintf("node %s at %s is not served, or cannot be reached", p.Name, p.Address))
		case a.at+mayLack < last:
			why = append(why, fmt.Sprintf("node %s still lacks %d events", p.Name, last-a.at))
		}
	}
	return why
}
