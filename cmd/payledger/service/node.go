package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/process"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/replog"
	"payledger/httpapi/account"
	"payledger/httpapi/wire"
	"payledger/notifier/health"
)

// forwarded has requests for what is in the log answered by the leader of the cluster.
func (a *app) forwarded(listener string, local http.Handler, itself func(path string) bool) http.Handler {
	if a.node == nil {
		return local
	}
	return a.node.Port.Forward(listener, local, itself)
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
	status := func() replog.Status {
		if node == nil {
			return replog.Status{Ready: true, GroupAt: time.Now()}
		}
		return node.Store.Status()
	}
	health.FlagFunc(m, "payledger_cluster_leader", "1 while this server writes the log and does what follows from it; of the nodes of a cluster one does.",
		func() bool { return status().Ready })
	health.FlagFunc(m, "payledger_cluster_stopped", "1 when this node takes no part any more, because its log and that of the cluster differ.",
		func() bool { return status().Stopped != "" })
	health.FlagFunc(m, "payledger_cluster_unable", "1 while this node cannot be the leader: it records nothing, because its disk is full or its log damaged, its clock is off, or it is being stopped.",
		func() bool { return status().Unfit != "" })
	health.GaugeFunc(m, "payledger_cluster_groups", "Number of the last group of commits of the cluster's common write-ahead log that this node has; 0 without a cluster.",
		func() float64 { return float64(status().Message) })
	health.GaugeFunc(m, "payledger_cluster_lag_groups", "Groups of commits of the cluster's log that are known to this node and that it does not have.",
		func() float64 { s := status(); return float64(s.Last - s.Message) })
	health.GaugeFunc(m, "payledger_cluster_group_age_seconds", "Time since this node got its last group of commits, or since its start; 0 without a cluster.",
		func() float64 {
			at := status().GroupAt
			if at.IsZero() {
				at = began
			}
			return max(0, time.Since(at).Seconds())
		})
}

// readTime is how long a node tries to find out whether it is the leader, and a reload to be recorded.
const readTime = 3 * time.Second

// answers says why requests should not come here, nil if they can: they cannot be answered, or
// this node may not become the leader.
func (a *app) answers() error {
	if err := a.ready(); err != nil || a.node == nil {
		return err
	}
	if why := a.node.Store.Status().Unfit; why != "" {
		return errors.New(why)
	}
	ctx, cancel := context.WithTimeout(a.stopping, readTime)
	defer cancel()
	return a.node.Store.Serves(ctx)
}

// takePart waits until a node takes part in its cluster, or cannot any more.
func (a *app) takePart(ctx context.Context) (part process.Part, err error) {
	if a.node == nil || a.node.Store.Serves(ctx) == nil {
		return part, nil
	}
	a.Log.Info().Str("node", a.node.Node).Msg("waiting for the other nodes of the cluster")
	for a.store.Err() == nil && a.node.Store.Status().Stopped == "" && a.node.Store.Serves(ctx) != nil {
		if !health.Pause(ctx, roleEvery) {
			return part, ctx.Err()
		}
	}
	return part, nil
}

// followActs takes up what operators do at other nodes.
func (a *app) followActs(context.Context) (part process.Part, err error) {
	if a.node != nil {
		part.Run = func(ctx context.Context) error {
			return a.acts.follow(ctx, func() {
				a.routes.free()
				if err := a.nats.ReloadConsumers(); err != nil {
					a.node.Report(err)
				}
			})
		}
	}
	return part, nil
}

// nodes are the cluster's for the operator.
func (a *app) nodes(ctx context.Context) []wire.Node {
	var all []wire.Node
	keys := a.signed.WitnessKeys(ctx)
	for _, s := range a.node.Store.Statuses(ctx) {
		n := wire.Node{
			Node: s.Name, Here: s.Name == a.node.Node, Role: wire.RoleFollower, Position: uint64(s.Position), Lag: s.Last - s.Message,
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
func (a *app) promote(ctx context.Context, node string) error {
	ctx, cancel := context.WithTimeout(ctx, promoteTime)
	defer cancel()
	return a.node.Store.Promote(ctx, node)
}

// yieldTime is how long another node may take to become the leader in place of one that is
// stopped.
const yieldTime = 5 * time.Second

// withdraw has another node lead before this one stops.
func (a *app) withdraw() {
	if a.node == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), yieldTime)
	defer cancel()
	if err := a.node.Store.Withdraw(ctx); err != nil {
		a.Log.Warn().Err(err).Msg("no other node has become the leader before this one stops: requests are refused until one does")
	}
}

// roleEvery is how often a node looks whether it is the leader.
const roleEvery = 50 * time.Millisecond

// lead starts the duties of a directory that is alone at once, and a node's whenever it becomes the
// leader, with parts that know nothing of an earlier time; they stop when it is not any more.
func (a *app) lead(ctx context.Context) (part process.Part, err error) {
	if a.node == nil {
		return part, a.startDuties(ctx, a.parts, a.metrics)
	}
	return process.Part{Run: a.followElections}, nil
}

func (a *app) followElections(ctx context.Context) (err error) {
	var duties *process.Parts // nil: another node is the leader
	stop := func() error {
		if duties == nil {
			return nil
		}
		err := duties.Stop()
		a.term.Store(nil)
		duties = nil
		if errors.Is(err, eventstore.ErrClosed) && !errors.As(err, new(*eventstore.FatalError)) {
			return nil // this node is being stopped, and so are the others: see replog's Withdraw
		}
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for health.Pause(ctx, roleEvery) {
		switch _, leads := a.node.Leader(); {
		case leads && duties == nil:
			metrics := prometheus.NewRegistry()
			duties = a.parts.Sub()
			a.term.Store(metrics)
			if err := a.startDuties(ctx, duties, metrics); err != nil {
				if err = errors.Join(fmt.Errorf("taking over the work: %w", err), stop()); errors.As(err, new(*eventstore.FatalError)) {
					return err
				}
				a.node.Report(err)
				continue
			}
			a.Log.Info().Str("node", a.node.Node).Msg("this node is the leader now: it writes the log, collects payments and sends webhooks")
		case duties != nil && duties.Failed().Err() != nil:
			return nil // stop says why
		case !leads && duties != nil:
			if err := stop(); err != nil {
				return err
			}
			a.Log.Info().Str("node", a.node.Node).Msg("this node is not the leader any more: it follows")
		}
	}
	return nil
}
