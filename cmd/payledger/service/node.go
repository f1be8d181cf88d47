package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/replog"
	"payledger/httpapi/account"
	"payledger/httpapi/wire"
	"payledger/notifier/health"
)

// clusterOf is what the directory is in a cluster; nil: it is alone.
func clusterOf(d datadir.Dir, o Options) (*clusternode.Cluster, error) {
	c, err := clusternode.Load(d)
	if err == nil && c != nil && o.NATS.URL != "" {
		err = cli.Errorf(cli.ExitUsage, "--nats-url: %s is a node of a cluster, whose nodes have NATS servers of their own: leave it out", d)
	}
	return c, err
}

// opened is the log of a directory, whose file it is in any case.
type opened struct {
	file *bolt.Store
	log  eventstore.Store  // what is appended to
	node *clusternode.Node // nil: the directory is alone
	io.Closer
}

// openLog opens the log. ids observe what other nodes add to it.
func openLog(ctx context.Context, d datadir.Dir, o CoreOptions, ids *domain.IDs) (opened, error) {
	options := bolt.Options{MinFree: o.MinFree, SyncDelay: o.SyncDelay, Report: logTrouble(o.Log), Committed: o.Committed, Erased: o.erased}
	if o.Cluster == nil {
		store, err := d.Open(options)
		if err != nil {
			return opened{}, err
		}
		return opened{file: store, log: traced(store, o.Tracer), Closer: store}, nil
	}
	options.Newest = ids.Observe
	version, _ := process.BuiltFrom()
	node, err := o.Cluster.Open(ctx, clusternode.Config{Dir: d, Listen: o.NodeListen, Bolt: options, Log: o.Log, Version: version})
	if err != nil {
		return opened{}, err
	}
	return opened{file: node.Store.Store, log: traced(node.Store, o.Tracer), node: node, Closer: node}, nil
}

// forwarded has requests for what is in the log answered by the leader of the cluster.
func (c *core) forwarded(listener string, local http.Handler, here func(path string) bool) http.Handler {
	if c.node == nil {
		return local
	}
	leaders := c.node.Port.Forward(listener, local)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if here(r.URL.Path) {
			local.ServeHTTP(w, r)
			return
		}
		leaders.ServeHTTP(w, r)
	})
}

// document reports whether a public path is one that each node answers by itself.
func document(path string) bool {
	for _, of := range []string{"/v1/", "/p/", account.Path + "/", "/connectors/"} {
		if strings.HasPrefix(path+"/", of) {
			return false
		}
	}
	return true
}

// ofNode reports whether an operator's path is about the node that is asked, and not about what
// all of them record.
func ofNode(path string) bool {
	switch path {
	case "/admin/backup", "/admin/verify", "/admin/replay", "/admin/routes/reload":
		return true
	}
	return strings.HasPrefix(path+"/", "/admin/cluster/")
}

// watchNode keeps metrics of the node's part in its cluster. A directory that is alone
// leads itself.
func watchNode(m prometheus.Registerer, node *clusternode.Node) {
	began := time.Now()
	gauge := func(name, help string, value func(replog.Status) float64) {
		health.GaugeFunc(m, name, help, func() float64 {
			s := replog.Status{Ready: true, GroupAt: time.Now()}
			if node != nil {
				s = node.Store.Status()
			}
			return value(s)
		})
	}
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge("payledger_cluster_leader", "1 while this server writes the log and does what follows from it; of the nodes of a cluster one does.",
		func(s replog.Status) float64 { return is(s.Ready) })
	gauge("payledger_cluster_stopped", "1 when this node takes no part any more, because its log and that of the cluster differ.",
		func(s replog.Status) float64 { return is(s.Stopped != "") })
	gauge("payledger_cluster_unable", "1 while this node cannot be the leader: it records nothing, because its disk is full or its log damaged, its clock is off, or it is being stopped.",
		func(s replog.Status) float64 { return is(s.Unfit != "") })
	gauge("payledger_cluster_groups", "Number of the last group of commits of the cluster's common write-ahead log that this node has; 0 without a cluster.",
		func(s replog.Status) float64 { return float64(s.Message) })
	gauge("payledger_cluster_lag_groups", "Groups of commits of the cluster's log that are known to this node and that it does not have.",
		func(s replog.Status) float64 { return float64(s.Last - s.Message) })
	gauge("payledger_cluster_group_age_seconds", "Time since this node got its last group of commits, or since its start; 0 without a cluster.",
		func(s replog.Status) float64 {
			if s.GroupAt.IsZero() {
				s.GroupAt = began
			}
			return max(0, time.Since(s.GroupAt).Seconds())
		})
}

// readTime is how long a node tries to find out whether it is the leader.
const readTime = 3 * time.Second

// answers says why requests should not come here, nil if they can: they cannot be answered, or
// this node may not become the leader.
func (c *core) answers() error {
	if err := c.ready(); err != nil || c.node == nil {
		return err
	}
	if why := c.node.Store.Status().Unfit; why != "" {
		return errors.New(why)
	}
	ctx, cancel := context.WithTimeout(c.stopping, readTime)
	defer cancel()
	return c.node.Store.Serves(ctx)
}

// awaitPart waits until a node takes part in its cluster, or cannot any more; false: it is to
// be stopped before.
func (c *core) awaitPart(ctx context.Context) bool {
	if c.node == nil || c.node.Store.Serves(ctx) == nil {
		return true
	}
	c.log.Info().Str("node", c.node.Node).Msg("waiting for the other nodes of the cluster")
	for health.Pause(ctx, roleEvery) {
		if c.store.Err() != nil || c.node.Store.Status().Stopped != "" || c.node.Store.Serves(ctx) == nil {
			return true
		}
	}
	return false
}

// nodes are the cluster's for the operator.
func (c *core) nodes(ctx context.Context) []wire.Node {
	var all []wire.Node
	keys := c.signed.WitnessKeys(ctx)
	for _, s := range c.node.Store.Statuses(ctx) {
		n := wire.Node{
			Node: s.Name, Here: s.Name == c.node.Node, Role: wire.RoleFollower, Position: uint64(s.Position), Lag: s.Last - s.Message,
			Version: s.Version, WitnessKey: keys[s.Name], Trouble: s.Trouble,
		}
		switch {
		case s.Silent != "":
			n.Role, n.Trouble = wire.RoleSilent, s.Silent
		case s.Stopped != "":
			n.Role, n.Trouble = wire.RoleStopped, s.Stopped
		case s.Ready:
			n.Role = wire.RoleLeader
		case s.Leader == "":
			n.Role = wire.RoleWaiting
		}
		if s.Unfit != "" {
			n.Trouble = s.Unfit
		}
		if !s.TroubleAt.IsZero() {
			at := domain.InstantOf(s.TroubleAt)
			n.TroubleAt = &at
		}
		all = append(all, n)
	}
	return all
}

// promoteTime is how long a node may take to become the leader.
const promoteTime = 15 * time.Second

// promote makes a node the leader.
func (c *core) promote(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	return c.node.Store.Promote(ctx, node)
}

// withdraw has another node lead before this one stops.
func (c *core) withdraw() {
	if c.node == nil {
		return
	}
	if err := c.node.Withdraw(context.Background()); err != nil {
		c.log.Warn().Err(err).Msg("no other node has become the leader before this one stops: requests are refused until one does")
	}
}

// roleEvery is how often a node looks whether it is the leader.
const roleEvery = 50 * time.Millisecond

// runLeaderDuties does the work of the whole log while this node is the leader, with
// parts that know nothing of an earlier time.
func (c *core) runLeaderDuties(ctx context.Context, b *messaging, o Options, metrics prometheus.Registerer) (err error) {
	var end func() error // nil: another node is the leader
	defer func() {
		if end != nil {
			err = errors.Join(err, end())
		}
	}()
	for health.Pause(ctx, roleEvery) {
		switch _, ready := c.node.Leader(); {
		case ready && end == nil:
			t := &process.Term{Registerer: metrics}
			stop, err := b.begin(c, o, t)
			if err != nil {
				t.End()
				if errors.As(err, new(*eventstore.FatalError)) {
					return fmt.Errorf("taking over the work: %w", err)
				}
				c.node.Report(fmt.Errorf("taking over the work: %w", err))
				continue
			}
			end = func() error {
				b.watchdog.Store(nil)
				err := stop()
				t.End()
				return err
			}
			c.log.Info().Str("node", c.node.Node).Msg("this node is the leader now: it writes the log, collects payments and sends webhooks")
		case !ready && end != nil:
			err, end = end(), nil
			if err != nil {
				return err
			}
			c.log.Info().Str("node", c.node.Node).Msg("this node is not the leader any more: it follows")
		}
	}
	return nil
}
