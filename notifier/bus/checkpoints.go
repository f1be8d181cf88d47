package bus

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"payledger/domain"
	"payledger/notifier/health"
)

// CheckpointsStream keeps the newest signed checkpoints of the log, and
// CheckpointsSubject is where each is published.
const (
	CheckpointsStream  = "CHECKPOINTS"
	CheckpointsSubject = "payledger.v1.checkpoints"
)

// The limits of CHECKPOINTS: late auditors want some to compare with, and each covers all before
// it.
const (
	maxCheckpoints    = 10_000
	maxCheckpointsAge = 30 * 24 * time.Hour
	maxCheckpointSize = 64 << 10
)

func checkpointsConfig(log domain.ID) jetstream.StreamConfig {
	c := streamConfig(log, CheckpointsStream, "Signed checkpoints of the event log of payledger.", CheckpointsSubject)
	c.MaxMsgs, c.MaxAge, c.MaxMsgSize = maxCheckpoints, maxCheckpointsAge, maxCheckpointSize
	c.DenyDelete, c.DenyPurge = true, true
	return c
}

// Checkpoints publishes signed checkpoints. While NATS is away it keeps the
// newest one, which covers those before it. Safe for concurrent use.
type Checkpoints struct {
	conn    *Conn
	log     domain.ID
	trouble health.State
	newest  atomic.Pointer[[]byte] // not published yet; nil: none
}

// publishEvery is how often it is looked for a new checkpoint, or tried again.
const publishEvery = 250 * time.Millisecond

// NewCheckpoints makes a publisher; Run lets it work. metrics may be nil.
func NewCheckpoints(c *Conn, logID domain.ID, log zerolog.Logger, metrics prometheus.Registerer) *Checkpoints {
	p := &Checkpoints{conn: c, log: logID, trouble: health.State{Log: log, Part: "checkpoints"}}
	health.UpGauge(metrics, "checkpoints", "signed checkpoints reach JetStream", p.Err)
	return p
}

// Publish takes a signed checkpoint. It neither waits nor fails; an earlier one that was not
// published yet is dropped.
func (p *Checkpoints) Publish(signed []byte) { p.newest.Store(&signed) }

// Err says why checkpoints do not reach JetStream just now, nil when they do. A
// *ForeignStreamError awaits the operator; anything else passes by itself.
func (p *Checkpoints) Err() error { return p.trouble.Err() }

// Run publishes until ctx ends. The error is always nil: checkpoints can be read
// elsewhere too.
func (p *Checkpoints) Run(ctx context.Context) error {
	for health.Pause(ctx, publishEvery) {
		if err := p.publish(ctx); ctx.Err() == nil {
			p.trouble.Set(err)
		}
	}
	return nil
}

// publish brings the newest checkpoint out, if there is one.
func (p *Checkpoints) publish(ctx context.Context) error {
	signed := p.newest.Load()
	if signed == nil {
		return nil
	}
	// Asked each time: the JetStream stream may be gone since the last one.
	if _, err := OpenStream(ctx, p.conn, checkpointsConfig(p.log)); err != nil {
		return err
	}
	if _, err := p.conn.JetStream().Publish(ctx, CheckpointsSubject, *signed, jetstream.WithExpectStream(CheckpointsStream)); err != nil {
		return fmt.Errorf("publishing a checkpoint: %w", err)
	}
	p.newest.CompareAndSwap(signed, nil)
	return nil
}
