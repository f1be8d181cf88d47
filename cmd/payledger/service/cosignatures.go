package service

import (
	"bytes"
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"payledger/cmd/payledger/nodewitness"
	"payledger/eventstore/translog"
	"payledger/httpapi/merchant"
)

// The nodes of a cluster vouch for each other's checkpoints (package nodewitness).

// askAgain is how long nodes that did not vouch for a checkpoint are left alone.
const askAgain = 5 * time.Second

// witness lets this node and the others vouch. Called before begin.
func (c *checkpoints) witness(node nodewitness.Config) (err error) {
	if node.Log, err = translog.ParseVerifier(c.signer.VerifierKey()); err != nil {
		return err
	}
	node.Root, node.Keep = c.views.RootHere, c.keep
	c.signs = func() bool { return node.Node.Store.Status().Ready }
	c.nodes, err = nodewitness.Open(node)
	return err
}

// keep makes another node's checkpoint the newest, unless there is a newer one. It was
// compared with the own tree.
func (c *checkpoints) keep(next translog.Checkpoint, signed []byte) error {
	select {
	case <-c.compared:
		if c.doubt != nil {
			return c.doubt
		}
	default:
		return merchant.ErrComparing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.signed != nil && next.Size <= c.newest.Size {
		return nil
	}
	return c.write(next, signed)
}

// settled reports whether there is nothing to ask the nodes about the newest checkpoint.
func (c *checkpoints) settled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes == nil || c.vouched == len(c.nodes.Node.Members) || c.now().Sub(c.asked) < askAgain
}

// cosigned adds what the nodes vouch to a checkpoint, and publishes the newest one.
func (c *checkpoints) cosigned(ctx context.Context, signed []byte) ([]byte, error) {
	c.mu.Lock()
	newest := bytes.Equal(signed, c.signed)
	c.mu.Unlock()
	if newest && c.settled() {
		return signed, nil
	}
	with, n := c.nodes.Collect(ctx, signed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !bytes.Equal(signed, c.signed) {
		return with, nil // there is a newer one, or somebody else has asked
	}
	if n >= c.vouched {
		if err := c.write(c.newest, with); err != nil {
			return nil, err
		}
		c.vouched = n
		c.publish(with)
	}
	c.asked = c.now()
	return c.signed, nil
}

// observeCosignatures adds the metrics of the newest checkpoint.
func (c *checkpoints) observeCosignatures(m prometheus.Registerer) {
	gauge := func(name, help string, value func() float64) {
		m.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			c.mu.Lock()
			defer c.mu.Unlock()
			return value()
		}))
	}
	gauge("payledger_log_checkpoint_cosignatures", "How many nodes of the cluster vouch for the newest checkpoint, as the sequencer counts them; 0 without a cluster.",
		func() float64 { return float64(c.vouched) })
	gauge("payledger_log_checkpoint_age_seconds", "Time since the newest checkpoint was signed or came from another node; while nothing is recorded none is signed.",
		func() float64 { return max(0, c.now().Sub(c.at).Seconds()) })
}
