package bolt

import (
	"encoding/binary"
	"errors"
	"slices"

	bbolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

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
	tx      *bbolt.Tx
	epoch   uint64
	buckets [epochs]*bbolt.Bucket // newest first; nil where there is none
}

func claimsOf(tx *bbolt.Tx, newest domain.ID) *claims {
	c := &claims{tx: tx, epoch: epochOf(newest)}
	for i := range c.buckets {
		if c.epoch >= uint64(i) {
			c.buckets[i] = tx.Bucket(claimsBucket(c.epoch - uint64(i)))
		}
	}
	return c
}

// advance makes room for the keys of a new epoch and forgets those that are
// older than three.
func (c *claims) advance(newest domain.ID) error {
	epoch := epochOf(newest)
	if epoch == c.epoch {
		return nil
	}
	for old := range epochs {
		if c.epoch < uint64(old) || c.epoch-uint64(old)+epochs > epoch {
			continue
		}
		err := c.tx.DeleteBucket(claimsBucket(c.epoch - uint64(old)))
		if err != nil && !errors.Is(err, berrors.ErrBucketNotFound) {
			return err
		}
	}
	*c = *claimsOf(c.tx, newest)
	return nil
}

func (c *claims) find(project string, key domain.Digest) eventstore.Position {
	k := claimKey(project, key)
	for _, b := range c.buckets {
		if b == nil {
			continue
		}
		if v := b.Get(k); len(v) == 8 {
			return eventstore.Position(binary.BigEndian.Uint64(v))
		}
	}
	return 0
}

func (c *claims) add(project string, key domain.Digest, at eventstore.Position) error {
	if c.buckets[0] == nil {
		b, err := c.tx.CreateBucket(claimsBucket(c.epoch))
		if err != nil {
			return err
		}
		c.buckets[0] = b
	}
	return c.buckets[0].Put(claimKey(project, key), positionKey(at))
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
