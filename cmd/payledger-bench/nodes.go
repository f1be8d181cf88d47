package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"payledger/cmd/freeports"
)

// nodes are the three nodes of a cluster, each a process.
type nodes struct {
	b       *bench
	dirs    []directory
	address string // of the first, for the others
	all     []*target
}

// nodes makes a cluster of a directory, which becomes its first node.
func (b *bench) nodes(ctx context.Context, first directory) (*nodes, error) {
	b.step("making three nodes")
	n := &nodes{b: b, dirs: []directory{first}}
	addresses, err := freeports.Addresses("127.0.0.1", 3)
	if err != nil {
		return nil, err
	}
	n.address = addresses[0]
	var named []string
	for i, name := range []string{"a", "b", "c"} {
		named = append(named, name+"="+addresses[i])
		if i > 0 {
			n.dirs = append(n.dirs, directory{first.path + name, first.project})
		}
	}
	_, err = timed(ctx, nil, b.program, "cluster", "init", "--data", first.path, "--nodes", strings.Join(named, ","))
	return n, err
}

// join lets the other nodes join the first one, which is served meanwhile, and returns how long
// each took.
func (n *nodes) join(ctx context.Context) (took []time.Duration, err error) {
	first := exec.CommandContext(ctx, n.b.program, "serve", "--data", n.dirs[0].path, "--listen", "127.0.0.1:0", "--sandbox") //nolint:gosec // the user names it
	first.Env = environment()
	if err := first.Start(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, first.Process.Signal(syscall.SIGTERM), first.Wait()) }()
	for i, name := range []string{"b", "c"} {
		var last error
		var once time.Duration
		err := until(ctx, "node "+name+" joins", settleWait, func() (bool, error) {
			once, last = timed(ctx, nil, n.b.program, "cluster", "join", "--from", n.address, "--key-file", filepath.Join(n.dirs[0].path, "cluster.key"),
				"--name", name, "--data", n.dirs[i+1].path)
			return last == nil, sleep(ctx, 100*time.Millisecond)
		})
		if err != nil {
			return nil, errors.Join(err, last)
		}
		took = append(took, once)
	}
	return took, nil
}

// copies measures how long a node that joins takes for its copy of a long log.
func (b *bench) copies(ctx context.Context) error {
	d, err := b.longLog(ctx)
	if err != nil {
		return err
	}
	n, err := b.nodes(ctx, d)
	if err != nil {
		return err
	}
	b.step("two nodes join it")
	took, err := n.join(ctx)
	if err != nil {
		return err
	}
	var rate series
	for _, t := range took {
		rate = append(rate, float64(b.payments)/t.Seconds())
	}
	b.row(fmt.Sprintf("copy of %s payments by a node that joins", number(float64(b.payments))), "payments/s", rate, rate.itself())
	return nil
}

// start starts these nodes together: none is ready before two of them are.
func (n *nodes) start(ctx context.Context, which ...int) error {
	started := make([]*target, len(n.dirs))
	var g errgroup.Group // without its context, which would end the processes
	for _, i := range which {
		g.Go(func() (err error) {
			started[i], err = n.b.launchService(ctx, n.b.program, fmt.Sprintf("node %c", 'a'+i), n.dirs[i])
			return err
		})
	}
	err := g.Wait()
	for i, t := range started {
		if t == nil {
			continue
		}
		n.b.running = append(n.b.running, t)
		n.all[i] = t
	}
	return err
}

// leader waits until a node is the leader and all take part.
func (n *nodes) leader(ctx context.Context) (which int, err error) {
	err = until(ctx, "all nodes take part", settleWait, func() (bool, error) {
		leads, behind := 0.0, 0.0
		for i, t := range n.all {
			is, err := t.metric(ctx, "payledger_cluster_leader")
			if err != nil {
				return false, err
			}
			lag, err := t.metric(ctx, "payledger_cluster_lag_groups")
			if err != nil {
				return false, err
			}
			if behind += lag; is == 1 {
				leads, which = leads+is, i
			}
		}
		return leads == 1 && behind == 0, sleep(ctx, 10*time.Millisecond)
	})
	return which, err
}

// cluster measures three nodes against one, and against the least that stores the same bytes on
// three.
func (b *bench) cluster(ctx context.Context) error {
	entrants, err := b.entrants(ctx, creating, replicated)
	if err != nil {
		return err
	}
	n, err := b.startNodes(ctx)
	if err != nil {
		return err
	}
	at, err := n.leader(ctx)
	if err != nil {
		return err
	}
	first, follower := n.all[at], n.all[(at+1)%len(n.all)]
	entrants = append(entrants, entrant{"the leader", first, creating}, entrant{"a follower", follower, creating})
	const what = "POST on three nodes, 64 connections"
	m, err := b.measure(ctx, what, load{connections: 64}, entrants...)
	if err != nil {
		return err
	}
	b.row(what, "payments/s", m[2].rate, m[2].rate.over("one node", m[0].rate), m[2].rate.over(replicated, m[1].rate))
	b.row("POST through a follower, 64 connections", "payments/s", m[3].rate, m[3].rate.over("the leader", m[2].rate))

	known := func(*target) operation { return getting(first) }
	m, err = b.measure(ctx, "GET on a follower, 64 connections", load{connections: 64},
		entrant{"one node", entrants[0].t, getting}, entrant{"a follower", follower, known})
	if err != nil {
		return err
	}
	b.row("GET on a follower, 64 connections", "payments/s", m[1].rate, m[1].rate.over("one node", m[0].rate))

	var busy measured
	for round := range b.rounds {
		b.step("GET on a follower beside POSTs, round %d of %d", round+1, b.rounds)
		g, both := errgroup.WithContext(ctx)
		g.Go(func() error {
			_, err := first.drive(both, load{connections: openConnections, rate: 1000, duration: b.duration + b.duration/8}, creating(first))
			return err
		})
		g.Go(func() error {
			return b.once(both, "GET on a follower", load{connections: 64, rate: 1000}, entrant{"a follower", follower, known}, &busy)
		})
		if err := g.Wait(); err != nil {
			return err
		}
	}
	b.row("GET on a follower beside 1000 POST/s: p99", "ms", busy.p99, busy.p99.itself())
	return nil
}

// startNodes makes a cluster and starts it.
func (b *bench) startNodes(ctx context.Context) (*nodes, error) {
	first, err := b.newDirectory(ctx, b.program)
	if err != nil {
		return nil, err
	}
	n, err := b.nodes(ctx, first)
	if err == nil {
		_, err = n.join(ctx)
	}
	if err != nil {
		return nil, err
	}
	n.all = make([]*target, len(n.dirs))
	err = n.start(ctx, 0, 1, 2)
	return n, err
}

// handOver measures how long clients of the other nodes wait for the answer to a POST,
// which they send again until it is 201, while the leader goes.
func (b *bench) handOver(ctx context.Context) error {
	n, err := b.startNodes(ctx)
	if err != nil {
		return err
	}
	for _, way := range []struct {
		row string
		sig syscall.Signal
	}{
		{"asked to end", syscall.SIGTERM}, {"killed", syscall.SIGKILL}, {"cut off", syscall.SIGSTOP},
	} {
		var took series
		for round := range b.rounds {
			b.step("the leader is %s, round %d of %d", way.row, round+1, b.rounds)
			d, err := n.without(ctx, way.sig)
			if err != nil {
				return err
			}
			took = append(took, d.Seconds())
		}
		b.row("longest wait for a 201 when the leader is "+way.row, "s", took, took.itself())
	}
	return nil
}

// watched is how long clients are watched, at least, once the leader goes.
const watched = 3 * time.Second

// without sends the leader a signal, and has it back in the end. It returns the
// longest wait at the other nodes.
func (n *nodes) without(ctx context.Context, sig syscall.Signal) (longest time.Duration, err error) {
	at, err := n.leader(ctx)
	if err != nil {
		return 0, err
	}
	gone := n.all[at]
	if err := gone.fillUp(ctx, 20); err != nil {
		return 0, err
	}
	waits := make([]time.Duration, len(n.all))
	signalled := time.Now()
	if err := gone.cmd.Process.Signal(sig); err != nil {
		return 0, err
	}
	g, asking := errgroup.WithContext(ctx)
	for i, t := range n.all {
		if i == at {
			continue
		}
		g.Go(func() error {
			for time.Since(signalled) < watched {
				began := time.Now()
				if err := t.persist(asking); err != nil {
					return err
				}
				waits[i] = max(waits[i], time.Since(began))
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return 0, err
	}
	longest = slices.Max(waits)
	if sig == syscall.SIGSTOP {
		err = gone.cmd.Process.Signal(syscall.SIGCONT)
	} else {
		<-gone.exited
		n.b.running = slices.DeleteFunc(n.b.running, func(r *target) bool { return r == gone })
		if err = n.start(ctx, at); err == nil {
			n.all[at].created(gone.all()) // they are read again at the end
		}
	}
	if err != nil {
		return 0, err
	}
	return longest, n.all[at].persist(ctx) // once it serves
}

// persist creates one payment, under one key, until that is answered with 201.
func (t *target) persist(ctx context.Context) error {
	key := t.keys.Add(1)
	return until(ctx, t.name+" creates a payment", settleWait, func() (bool, error) {
		c, err := t.dial(ctx, t.projects[0], time.Now().Add(patience))
		if err != nil {
			return false, err
		}
		defer c.close()
		switch a, err := c.do("POST", "/v1/payments", key, paymentBody); {
		case err != nil:
			return false, err
		case a.status == http.StatusCreated:
			return true, nil
		case a.status != http.StatusServiceUnavailable:
			return false, &answerError{fmt.Sprintf("%s: status %d: %.300s", t.name, a.status, strings.TrimSpace(string(a.body)))}
		}
		return false, sleep(ctx, 5*time.Millisecond)
	})
}
