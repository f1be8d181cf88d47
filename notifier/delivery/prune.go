package delivery

import (
	"bytes"
	"context"
	"slices"
	"time"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
)

// keepLanes is how long an idle lane is kept: its marks outlive its
// deliveries, so that what can be asked for again can be judged.
const keepLanes = domain.KeepDeliveries + 24*time.Hour

// The pace of pruning: how often the file is gone through, how much is looked
// at and deleted in one step, and the pause between steps.
const (
	pruneEvery = time.Hour
	pruneLook  = 4096
	pruneMost  = 512
	prunePause = 20 * time.Millisecond
)

// prune forgets what is old until ctx ends or the file fails.
func (l *Lanes) prune(ctx context.Context) {
	for {
		if !sleep(ctx, pruneEvery) {
			return
		}
		for _, t := range l.all() {
			for _, bucket := range [...]string{bucketSettled, bucketUndelivered, bucketLanes} {
				if !l.pruneBucket(ctx, t, bucket) {
					return
				}
			}
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pruneBucket goes through what an endpoint has in a bucket; false: it has to
// end.
func (l *Lanes) pruneBucket(ctx context.Context, t *target, bucket string) bool {
	var from domain.ID
	for {
		o := &pruneOp{target: t, bucket: bucket}
		done := false
		err := l.view(func(btx *bbolt.Tx) (err error) {
			o.ids, from, done, err = l.outdated(tablesOf(btx), t, bucket, from)
			return err
		})
		if err != nil {
			l.writer.fail(err)
			return false
		}
		if len(o.ids) > 0 && l.writer.insist(ctx, o) != nil {
			return false
		}
		if done {
			return ctx.Err() == nil
		}
		if !sleep(ctx, prunePause) {
			return false
		}
	}
}

// outdated lists what can go, from an id on, and where to go on. Ids carry the
// time of their making, which is before anything else that happened to what
// they name: at the first one that is young enough the rest need not be seen.
func (l *Lanes) outdated(x tables, t *target, bucket string, from domain.ID) (ids []domain.ID, next domain.ID, done bool, err error) {
	b, keep := x.bucket(bucket)
	horizon := l.clock.now().Add(-keep)
	prefix := t.key()
	c := b.Cursor()
	k, v := c.Seek(t.keyOf(from))
	for looked := 0; bytes.HasPrefix(k, prefix) && len(k) > 0; looked++ {
		id := domain.ID(k[4:])
		if domain.IDTime(id) >= horizon {
			break
		}
		if looked == pruneLook || len(ids) == pruneMost {
			return ids, id, false, nil
		}
		old, err := outdated(bucket, id, k, v, horizon)
		if err != nil {
			return nil, id, true, err
		}
		if old {
			ids = append(ids, id)
		}
		k, v = c.Next()
	}
	return ids, from, true, nil
}

func (t tables) bucket(name string) (*bbolt.Bucket, time.Duration) {
	switch name {
	case bucketLanes:
		return t.lane, keepLanes
	case bucketUndelivered:
		return t.undelivered, domain.KeepDeliveries
	default:
		return t.settled, domain.KeepDeliveries
	}
}

func outdated(bucket string, id domain.ID, key, v []byte, horizon domain.Instant) (bool, error) {
	if bucket == bucketLanes {
		l, err := parseLane(key, v)
		return len(l.line) == 0 && l.touched < horizon, err
	}
	d, err := parseRecord(id, key, v)
	return d.touched < horizon, err
}

// pruneOp deletes what is still outdated.
type pruneOp struct {
	target *target
	bucket string
	ids    []domain.ID
}

func (o *pruneOp) apply(x *tx) error {
	b, keep := x.bucket(o.bucket)
	for _, id := range o.ids {
		key := o.target.keyOf(id)
		v := slices.Clone(b.Get(key))
		if v == nil {
			continue
		}
		old, err := outdated(o.bucket, id, key, v, x.now.Add(-keep))
		if err != nil {
			return err
		}
		if !old || o.bucket == bucketLanes && x.inFlight(&laneAt{target: o.target, payment: id}) {
			continue
		}
		if o.bucket == bucketUndelivered {
			x.count(o.target, func(n *tally) { n.undelivered-- })
		}
		if err := b.Delete(key); err != nil {
			return err
		}
	}
	return nil
}
