package delivery

import (
	"context"
	"time"

	"payledger/notifier/delivery/store"
	"payledger/notifier/health"
)

// The pace of pruning: how often the file is gone through, how many rows are
// looked at and deleted in one step, and the pause between steps.
const (
	pruneEvery = time.Hour
	pruneLook  = 4096
	pruneMax   = 512
	prunePause = 20 * time.Millisecond
)

// prune forgets what is old until ctx ends or the file fails.
func (l *Lanes) prune(ctx context.Context) {
	for health.Pause(ctx, pruneEvery) {
		for _, t := range l.all() {
			if !l.pruneRows(ctx, t, store.KeptSettled) || !l.pruneRows(ctx, t, store.KeptUndelivered) {
				return
			}
		}
		if !l.pruneRows(ctx, nil, store.KeptLanes) {
			return
		}
	}
}

// pruneRows goes through an endpoint's rows of one kind; lanes are those of all
// endpoints. It reports false if it has to end.
func (l *Lanes) pruneRows(ctx context.Context, t *target, kind store.Kept) bool {
	var keys [][]byte
	forget := func(x *tx) error { // what is still outdated
		for _, key := range keys {
			if kind == store.KeptLanes && l.underWay[store.LaneKey(key)] {
				continue
			}
			forgotten, err := x.Forget(kind, key)
			if err != nil {
				return err
			}
			if forgotten && kind == store.KeptUndelivered {
				x.count(t, func(n *store.Tally) { n.Undelivered-- })
			}
		}
		return nil
	}
	number := store.Number(0)
	if t != nil {
		number = t.number
	}
	for from := []byte(nil); ; {
		err := l.file.View(func(x store.Tables) (err error) {
			keys, from, err = x.Outdated(kind, number, from, l.clock.now(), pruneLook, pruneMax)
			return err
		})
		if err != nil {
			l.writer.fail(err)
			return false
		}
		if len(keys) > 0 && l.writer.insist(ctx, forget, 0) != nil {
			return false
		}
		if from == nil {
			return ctx.Err() == nil
		}
		if !health.Pause(ctx, prunePause) {
			return false
		}
	}
}
