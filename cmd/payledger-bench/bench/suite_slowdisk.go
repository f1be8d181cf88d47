package bench

import (
	"context"
	"time"
)

const slowConnections = 256

func stepsSlowDisk(b *bench) int { return 2*b.Rounds + 2 }

// slowDisk measures the service on a disk whose syncs take longer, against
// itself.
func (b *bench) slowDisk(ctx context.Context) error {
	delay := b.SyncDelay + time.Millisecond
	fast, err := b.service(ctx, "fast", b.SyncDelay)
	if err != nil {
		return err
	}
	slow, err := b.service(ctx, "slow", delay)
	if err != nil {
		return err
	}
	m, err := b.measure(ctx, "POST, 256 connections", load{Connections: slowConnections}, creators(slow, fast))
	if err != nil {
		return err
	}
	own, base := m[0].rate, m[1].rate
	b.row(Row{
		Suite: "slow-disk", Name: "POST with 1 ms more for each sync, 256 connections", Unit: "payments/s", Figure: own.median(), Note: latencyNote(m[0]),
		Must: own.atLeast(0.85, "without", base), Aim: own.atLeast(0.97, "without", base),
	})
	if err := b.checkAcks(ctx, fast); err != nil {
		return err
	}
	return b.checkAcks(ctx, slow)
}
