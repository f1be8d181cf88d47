package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/httpserver"
	"payledger/cmd/payledger/members"
	"payledger/domain"
	"payledger/eventstore/cluster"
	"payledger/httpapi/conns"
	"payledger/httpapi/edge"
	"payledger/httpapi/merchant"
	"payledger/httpapi/wire"
)

// answerTime is how long answers are waited for that are under way when the node takes part.
const answerTime = 2 * time.Second

// serveWaiting answers at the admin socket what state the nodes are in, and has LOG made
// anew, while this one waits for the others, until stop is called.
func serveWaiting(ctx context.Context, d datadir.Dir, node *members.Node, log zerolog.Logger) (stop func() error, err error) {
	e, err := edge.New(merchant.Config{Now: time.Now, Entropy: rand.Reader, PublicURL: "http://payledger"}.Edge(log, nil, "waiting"))
	if err != nil {
		return nil, err
	}
	h := e.Wrap(func(x *edge.Exchange) {
		var err error
		switch x.Request.Method + " " + x.Request.URL.Path {
		case "GET /admin/cluster":
			err = x.Reply(http.StatusOK, map[string]any{"data": waitingNodes(ctx, node)})
		case "POST /admin/cluster/rebase":
			if err = node.Rebase(x.Context(), cmp.Or(x.Request.Header.Get(wire.OperatorHeader), x.Request.RemoteAddr)); err != nil {
				err = edge.Unavailable("1", "The common write-ahead log was not made anew: "+err.Error()+".")
			} else {
				err = x.Reply(http.StatusAccepted, struct{}{})
			}
		default:
			err = edge.Unavailable("1", "This node waits for the other nodes of its cluster.")
		}
		if err != nil {
			x.Fail(err)
		}
	})
	l, err := d.ListenSocket()
	if err != nil {
		return nil, err
	}
	server, err := httpserver.Serve(l, h, conns.Config{Name: "admin", Max: httpserver.MaxAdminConnections, Log: log})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return func() error {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerTime)
		defer cancel()
		if err := server.Shutdown(ending); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
		return nil
	}, nil
}

// waitingNodes are the nodes as seen by one that does not take part yet.
func waitingNodes(ctx context.Context, node *members.Node) (all []wire.Node) {
	connected := node.Server.Connected()
	for _, m := range node.Members {
		n := wire.Node{Node: m.Name, Role: wire.RoleWaiting, Replica: "unknown"}
		s, err := cluster.StatusOf(ctx, node.Conn.NATS(), node.Cluster, m.Name)
		switch {
		case m.Name == node.Node:
			n.Here, n.Trouble = true, node.Trouble()
		case err == nil:
			n = nodeOf(s)
		case !slices.Contains(connected, m.Name):
			n.Role, n.Trouble = wire.RoleSilent, "it is not served at "+m.Address+", or cannot be reached"
		}
		all = append(all, n)
	}
	return all
}

// nodeOf is a node as its status says.
func nodeOf(s cluster.Status) wire.Node {
	n := wire.Node{
		Node: s.Name, Role: wire.RoleFollower, Groups: s.Group, Position: uint64(s.Position), Lag: s.Lag(), Trouble: s.Trouble, Replica: "unknown",
		Version: s.Program.Version, Extra: s.Extra,
	}
	switch {
	case s.Silent != "":
		n.Role, n.Trouble = wire.RoleSilent, s.Silent
	case s.Stopped != "":
		n.Role, n.Trouble = wire.RoleStopped, s.Stopped
	case s.Ready:
		n.Role = wire.RoleSequencer
	}
	if s.Unable != "" {
		n.Trouble = s.Unable
	}
	if !s.TroubleAt.IsZero() {
		at := domain.InstantOf(s.TroubleAt)
		n.TroubleAt = &at
	}
	return n
}

// replicaOf says how JetStream sees a node's replica of LOG.
func replicaOf(l cluster.LOG, node string) string {
	if l.Leader == node {
		return "leads"
	}
	for _, r := range l.Replicas {
		switch {
		case r.Name != node:
		case r.Offline:
			return "offline"
		case !r.Current:
			return fmt.Sprintf("behind by %d", r.Lag)
		default:
			return "current"
		}
	}
	return "unknown"
}
