package bolt

import (
	"bytes"
	"encoding/binary"
	"slices"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
)

const (
	epochMillis = 15 * 24 * 60 * 60 * 1000
	epochs      = 3 // buckets that are kept
)

// epochOf numbers the claims bucket of records whose greatest event id so far
// is newest.
func epochOf(newest domain.ID) uint64 { return newest.Time() / epochMillis }

func claimsBucket(epoch uint64) []byte {
	return binary.BigEndian.AppendUint64(slices.Clone(prefixClaims), epoch)
}

// claims is the index of idempotency keys within one transaction.
type claims struct {
	tx    *bbolt.Tx
	epoch uint64          // in which keys are claimed now
	kept  []claimsOfEpoch // newest first
}

type claimsOfEpoch struct {
	epoch  uint64
	bucket *bbolt.Bucket
}

func claimsOf(tx *bbolt.Tx, newest domain.ID) *claims {
	c := &claims{tx: tx, epoch: epochOf(newest)}
	for _, epoch := range claimedEpochs(tx) {
		c.kept = append(c.kept, claimsOfEpoch{epoch, tx.Bucket(claimsBucket(epoch))})
	}
	return c
}

// claimedEpochs are those that have a bucket, newest first.
func claimedEpochs(tx *bbolt.Tx) (epochs []uint64) {
	c := tx.Cursor()
	for k, _ := c.Seek(prefixClaims); bytes.HasPrefix(k, prefixClaims); k, _ = c.Next() {
		if len(k) == len(prefixClaims)+8 {
			epochs = append(epochs, binary.BigEndian.Uint64(k[len(prefixClaims):]))
		}
	}
	slices.Reverse(epochs)
	return epochs
}

// advance tells the greatest event id so far.
func (c *claims) advance(newest domain.ID) { c.epoch = epochOf(newest) }

func (c *claims) find(project string, key domain.Digest) eventstore.Position {
	k := claimKey(project, key)
	for _, e := range c.kept {
		if v := e.bucket.Get(k); len(v) == 8 {
			return eventstore.Position(binary.BigEndian.Uint64(v))
		}
	}
	return 0
}

// add notes a key. The first one of an epoch makes its bucket, and the oldest
// of more than three is forgotten. Time alone forgets nothing: a clock that
// was a year ahead for a moment would have all keys claimed again.
func (c *claims) add(project string, key domain.Digest, at eventstore.Position) error {
	if len(c.kept) == 0 || c.kept[0].epoch != c.epoch {
		b, err := c.tx.CreateBucket(claimsBucket(c.epoch))
		if err != nil {
			return err
		}
		c.kept = slices.Insert(c.kept, 0, claimsOfEpoch{c.epoch, b})
	}
	for len(c.kept) > epochs {
		oldest := len(c.kept) - 1
		if err := c.tx.DeleteBucket(claimsBucket(c.kept[oldest].epoch)); err != nil {
			return err
		}
		c.kept = c.kept[:oldest]
	}
	return c.kept[0].bucket.Put(claimKey(project, key), positionKey(at))
}

func claimKey(project string, key domain.Digest) []byte {
	return append(append(make([]byte, 0, len(key)+len(project)), key[:]...), project...)
}

// holdsClaim reports an error unless the index led to the right record.
func holdsClaim(r eventstore.Stored, project string, key domain.Digest) error {
	if r.Stream.Project != project || r.Claim == nil || r.Claim.Key != key {
		return &eventstore.CorruptError{Position: r.Position, Reason: "the index of idempotency keys leads to it by mistake"}
	}
	return nil
}
