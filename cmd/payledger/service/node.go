package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster"
	"payledger/eventstore/cluster/forms"
	"payledger/httpapi/wire"
	"payledger/notifier/health"
)

// memberOf is what the directory is in a cluster; nil: it is alone.
func memberOf(d datadir.Dir, o Options) (*members.Member, error) {
	m, err := members.Load(d)
	if err != nil || m == nil {
		return nil, err
	}
	switch {
	case o.NATSListen != "":
		return nil, cli.Errorf(cli.ExitUsage, "--nats-listen: %s is a node of a cluster, whose NATS servers take no clients: leave it out, and read events with GET /v1/events", d)
	case o.NATS.URL != "":
		return nil, cli.Errorf(cli.ExitUsage, "--nats-url: %s is a node of a cluster, whose nodes have NATS servers of their own: leave it out; "+
			"if the cluster's log was on those servers, start all three nodes without it, then \"payledger cluster rebase\"", d)
	}
	m.Listen = o.NodeListen
	return m, nil
}

// opened is the log of a directory: its own file, and where that is a part of a
// cluster's log, all of it.
type opened struct {
	file *bolt.Store
	log  eventstore.Store // what is appended to, and whose reads are true
	node *members.Node    // nil: the directory is alone
	io.Closer

	folded eventstore.Store // log, as the projections see it
	follow func()           // is called before they follow it
}

// openLog opens the log. ids observe what other nodes add to it.
func openLog(ctx context.Context, d datadir.Dir, o CoreOptions, ids *domain.IDs) (opened, error) {
	options := bolt.Options{MinFree: o.MinFree, SyncDelay: o.SyncDelay, Report: logTrouble(o.Log), Committed: o.Committed}
	if o.Member == nil {
		store, err := d.Open(options)
		if err != nil {
			return opened{}, err
		}
		return opened{file: store, log: traced(store, o.Tracer), Closer: store, folded: store, follow: func() {}}, nil
	}
	options.Newest = ids.Observe
	node, err := takePart(ctx, d, o, options)
	if err != nil {
		return opened{}, err
	}
	g := &logUntilFollowed{Store: node.Store}
	if g.end, err = node.Store.Store.Last(ctx); err != nil {
		return opened{}, errors.Join(err, node.Close())
	}
	return opened{
		file: node.Store.Store, log: node.Store, node: node, Closer: node, folded: g, follow: func() { g.followed.Store(true) },
	}, nil
}

// takePart starts a node and waits until it takes part.
func takePart(ctx context.Context, d datadir.Dir, o CoreOptions, options bolt.Options) (node *members.Node, err error) {
	version, _ := process.BuiltFrom()
	if node, err = o.Member.Visit(ctx, d, o.Log); err != nil {
		return nil, err
	}
	stop, err := serveWaiting(ctx, d, node, o.Log)
	if err != nil {
		return nil, errors.Join(err, node.Close())
	}
	err = node.TakePart(ctx, members.Part{Dir: d, Version: version, Bolt: options, Log: o.Log, Metrics: o.Metrics})
	if err = errors.Join(err, stop()); err != nil {
		return nil, errors.Join(err, node.Close())
	}
	return node, nil
}

// logUntilFollowed is a cluster's log as the projections see it. They are opened while other
// nodes' events are still appended, and apply those only once they follow the log: until
// then it ends at end.
type logUntilFollowed struct {
	*cluster.Store
	end      eventstore.Position
	followed atomic.Bool
}

// Last implements eventstore.Store.
func (g *logUntilFollowed) Last(ctx context.Context) (eventstore.Position, error) {
	if !g.followed.Load() {
		return g.end, nil
	}
	return g.Store.Last(ctx)
}

// LastOf implements eventstore.Store. Until the log is followed it is no lower than that.
func (g *logUntilFollowed) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	if !g.followed.Load() {
		return g.end, nil
	}
	return g.Store.LastOf(ctx, f)
}

// watchNode keeps metrics of the node's part in its cluster. A directory that is alone
// is its own sequencer.
func watchNode(m prometheus.Registerer, node *members.Node) {
	began := time.Now()
	gauge := func(name, help string, value func(cluster.Status) float64) {
		health.GaugeFunc(m, name, help, func() float64 {
			s := cluster.Status{Ready: true, GroupAt: time.Now()}
			if node != nil {
				s = node.Store.Status()
			}
			return value(s)
		})
	}
	gauge("payledger_cluster_clock_ahead_seconds", "How far this node's clock is ahead of the nearest one of the other nodes; below 0: behind it; 0 where that is not known.",
		func(s cluster.Status) float64 { return s.Ahead().Seconds() })
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	gauge("payledger_cluster_sequencer", "1 while this server writes the log and does what follows from it; of the nodes of a cluster one does.",
		func(s cluster.Status) float64 { return is(s.Ready) })
	gauge("payledger_cluster_stopped", "1 when this node takes no part any more, because its log and that of the cluster differ.",
		func(s cluster.Status) float64 { return is(s.Stopped != "") })
	gauge("payledger_cluster_unable", "1 while this node cannot be the sequencer: it records nothing, because its disk is full or its log damaged, its clock is off, or it is being stopped.",
		func(s cluster.Status) float64 { return is(s.Unable != "") })
	gauge("payledger_cluster_groups", "Number of the last group of commits of the cluster's log that this node has; 0 without a cluster.",
		func(s cluster.Status) float64 { return float64(s.Group) })
	gauge("payledger_cluster_lag_groups", "Groups of commits of the cluster's log that are known to this node and that it does not have.",
		func(s cluster.Status) float64 { return float64(s.Lag()) })
	gauge("payledger_cluster_group_age_seconds", "Time since this node got its last group of commits, or since its start; 0 without a cluster.",
		func(s cluster.Status) float64 {
			if s.GroupAt.IsZero() {
				s.GroupAt = began
			}
			return max(0, time.Since(s.GroupAt).Seconds())
		})
}

// readTime is how long a node tries to find out whether its reads are true.
const readTime = 3 * time.Second

// answers says why requests cannot be answered, nil if they can.
func (c *core) answers() error {
	if err := c.ready(); err != nil || c.node == nil {
		return err
	}
	if s := c.node.Store.Status(); s.Ahead() > cluster.MaxAhead {
		return fmt.Errorf("this node's commands are refused: %s", s.Unable)
	}
	ctx, cancel := context.WithTimeout(c.stopping, readTime)
	defer cancel()
	if err := c.node.Store.CatchUp(ctx); err != nil {
		return fmt.Errorf("this node cannot reach the cluster's log: %w", err)
	}
	return nil
}

// nodes are the cluster's for the operator.
func (c *core) nodes(ctx context.Context) []wire.Node {
	var all []wire.Node
	keys, statuses := c.signed.WitnessKeys(ctx), c.node.Store.Statuses(ctx)
	var programs []forms.Program
	for _, s := range statuses {
		programs = append(programs, s.Program)
	}
	for _, s := range statuses {
		n := nodeOf(s)
		n.CannotRead = s.Program.Lacks(programs...)
		n.Here, n.Replica, n.WitnessKey = s.Name == c.node.Node, replicaOf(c.node.Store.Status().LOG, s.Name), keys[s.Name]
		all = append(all, n)
	}
	return all
}

const (
	// promoteTime is how long a node may take to become the sequencer.
	promoteTime = 15 * time.Second
	// withdrawTime is the same for the next one of a node that is being stopped. The
	// requests that come meanwhile wait for it.
	withdrawTime = 5 * time.Second
)

// promote makes a node the sequencer.
func (c *core) promote(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	_, err := c.node.Store.HandOver(ctx, node)
	return err
}

// endCluster ends the cluster, so that this node goes on alone. At first it becomes the
// sequencer, so that its log has everything.
func (c *core) endCluster(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	if _, err := c.node.Store.HandOver(ctx, c.node.Node); err != nil {
		return err
	}
	for !c.node.Store.Status().Ready {
		if !health.Pause(ctx, roleEvery) {
			return fmt.Errorf("this node has not become the sequencer: %w", ctx.Err())
		}
	}
	return c.node.Store.EndLOG(ctx)
}

// withdraw hands over to another node before this one stops.
func (c *core) withdraw() {
	if c.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTime)
	defer cancel()
	if err := c.node.Store.Withdraw(ctx); err != nil {
		c.log.Warn().Err(err).Msg("no other node has become the sequencer before this one stops: requests wait until one does")
	}
}

// dropRetired deletes the streams in which nodes of earlier versions kept who was signed
// in to the account and which forms were sent. Such a node, as long as it runs, makes them
// anew; so each node deletes them when it starts.
func (c *core) dropRetired(ctx context.Context) {
	js := c.node.Conn.JetStream()
	drop := func(name, subject string) error {
		s, err := js.Stream(ctx, name)
		if err != nil || !slices.Equal(s.CachedInfo().Config.Subjects, []string{subject}) {
			return err // or it is somebody else's
		}
		return js.DeleteStream(ctx, name)
	}
	for name, subject := range map[string]string{"SESSIONS": "payledger.sessions.>", "FORMS": "payledger.forms.>"} {
		for {
			err := drop(name, subject)
			if err == nil || errors.Is(err, jetstream.ErrStreamNotFound) || !health.Pause(ctx, time.Second) {
				break
			}
		}
	}
}

// roleEvery is how often a node looks whether it is the sequencer.
const roleEvery = 50 * time.Millisecond

// runLeaderDuties does the work of the whole log while this node is the sequencer, with
// parts that know nothing of an earlier time.
func (c *core) runLeaderDuties(ctx context.Context, b *messaging, o Options, metrics prometheus.Registerer) (err error) {
	var end func() error // nil: another node is the sequencer
	defer func() {
		if end != nil {
			err = errors.Join(err, end())
		}
	}()
	for health.Pause(ctx, roleEvery) {
		switch ready := c.node.Store.Status().Ready; {
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
			c.log.Info().Str("node", c.node.Node).Msg("this node is the sequencer now: it writes the log, routes payments and sends webhooks")
		case !ready && end != nil:
			err, end = end(), nil
			if err != nil {
				return err
			}
			c.log.Info().Str("node", c.node.Node).Msg("this node is not the sequencer any more: it follows")
		}
	}
	return nil
}
