package delivery

import (
	"bytes"
	"context"
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
			for _, bucket := range [...]string{bucketSettled, bucketUndelivered} {
				if !l.pruneBucket(ctx, t, bucket) {
					return
				}
			}
		}
		if !l.pruneBucket(ctx, nil, bucketLanes) {
			return
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

// pruneBucket goes through what an endpoint has in a bucket, or through the
// lanes of all; false: it has to end.
func (l *Lanes) pruneBucket(ctx context.Context, t *target, bucket string) bool {
	var prefix []byte
	if t != nil {
		prefix = t.key()
	}
	for from := prefix; ; {
		o := &pruneOp{target: t, bucket: bucket}
		done := false
		err := l.view(func(x tables) (err error) {
			o.keys, from, done, err = l.outdated(x, bucket, prefix, from)
			return err
		})
		if err != nil {
			l.writer.fail(err)
			return false
		}
		if len(o.keys) > 0 && l.writer.insist(ctx, o, 0) != nil {
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

// outdated lists what can go, from a key on, and where to go on. Keys are in
// the order of their ids, and ids carry the time of their making, which is
// before anything else that happened to what they name: at the first one that
// is young enough the rest need not be seen.
func (l *Lanes) outdated(x tables, bucket string, prefix, from []byte) (keys [][]byte, next []byte, done bool, err error) {
	in, keep := x.bucket(bucket)
	horizon := l.clock.now().Add(-keep)
	c := in.Cursor()
	k, v := c.Seek(from)
	for looked := 0; len(k) > 0 && bytes.HasPrefix(k, prefix); looked++ {
		if domain.IDTime(idIn(bucket, k)) >= horizon {
			break
		}
		if looked == pruneLook || len(keys) == pruneMost {
			return keys, bytes.Clone(k), false, nil
		}
		old, err := outdated(bucket, k, v, horizon)
		if err != nil {
			return nil, nil, true, err
		}
		if old {
			keys = append(keys, bytes.Clone(k))
		}
		k, v = c.Next()
	}
	return keys, nil, true, nil
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

// idIn is the id in a key: of a lane's payment, or of a delivery's event.
func idIn(bucket string, key []byte) domain.ID {
	if bucket == bucketLanes {
		return domain.ID(key[:16])
	}
	return domain.ID(key[4:])
}

func outdated(bucket string, key, v []byte, horizon domain.Instant) (bool, error) {
	if bucket == bucketLanes {
		l, err := parseLane(key, v)
		return len(l.line) == 0 && l.touched < horizon, err
	}
	d, err := parseRecord(idIn(bucket, key), key, v)
	return d.touched < horizon, err
}

// pruneOp deletes what is still outdated.
type pruneOp struct {
	target *target // whose deliveries they are
	bucket string
	keys   [][]byte
}

func (o *pruneOp) apply(x *tx) error {
	b, keep := x.bucket(o.bucket)
	for _, key := range o.keys {
		v := b.Get(key)
		if v == nil {
			continue
		}
		old, err := outdated(o.bucket, key, v, x.now.Add(-keep))
		if err != nil {
			return err
		}
		if !old || o.bucket == bucketLanes && x.lanes.flying[flight(key)] {
			continue
		}
		if o.bucket == bucketUndelivered {
			x.count(o.target, func(n *tally) { n.undelivered-- })
		}
		x.remove(b, key)
	}
	return nil
}
