package bolt

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/claims"
	"payledger/eventstore/bolt/record"
)

// claimed returns the position of the record that holds a claim's key, 0 if none
// does. The record may not be durable yet.
func claimed(x *claims.Index, n claims.Name) (eventstore.Position, error) {
	at, err := x.Find(n)
	if errors.Is(err, claims.ErrClosed) {
		err = eventstore.ErrClosed
	}
	return eventstore.Position(at), err
}

// nameOf is the name of a claim's key in the index, zero of no claim. A permanent claim belongs to
// no project.
func nameOf(project string, c *eventstore.Claim) (none claims.Name) {
	if c == nil {
		return none
	}
	if c.Forever {
		project = ""
	}
	return claims.NameOf(project, c.Key)
}

// holdsClaim returns an error unless the index led to the right record.
func holdsClaim(r eventstore.Stored, project string, c *eventstore.Claim) error {
	if r.Claim == nil || r.Claim.Key != c.Key || r.Claim.Forever != c.Forever || (!c.Forever && r.Stream.Project != project) {
		return &eventstore.CorruptError{Position: r.Position, Reason: "the index of claims leads to it by mistake"}
	}
	return nil
}

// claimsDir is the directory with the index of the log at path.
func claimsDir(path string) string { return strings.TrimSuffix(path, ".db") + ".claims" }

// openClaims opens the index of claims and adds the records that it does not cover.
func (s *Store) openClaims() error {
	var x *claims.Index
	last := s.tail.durable
	err := s.view(last, func(tx *bbolt.Tx) (err error) {
		log := tx.Bucket(bucketRecords)
		x, err = claims.Open(claims.Config{
			Dir: claimsDir(s.path), Log: s.logID, Damaged: s.fail,
			Holds: func(at uint64, event [16]byte) bool {
				r, err := recordAt(log, eventstore.Position(at))
				return err == nil && r.Commit == domain.ID(event)
			},
		})
		if err == nil {
			err = rebuildClaims(x, log, last)
		}
		return err
	})
	if x != nil && errors.As(err, new(*eventstore.CorruptError)) {
		x.Unreadable(err)
		err = nil
	}
	if err == nil { // of before version 9 of the format, when permanent claims had an index of their own
		err = os.RemoveAll(filepath.Join(claimsDir(s.path), "forever"))
	}
	switch {
	case err == nil:
	case errors.As(err, new(*eventstore.CorruptError)):
		return damaged(s.path, err.Error())
	default:
		return &OpenError{
			Path: claimsDir(s.path), Err: fmt.Errorf("the index of claims: %w", err),
			Advice: "check that the directory can be written to; it can be deleted and is then rebuilt",
		}
	}
	x.Start()
	s.claims, s.staging.index = x, x
	return nil
}

// rebuildClaims adds the records up to the last one to the index. A record that cannot be read may
// have claimed any key: the index is then incomplete.
func rebuildClaims(x *claims.Index, log *bbolt.Bucket, last eventstore.Position) error {
	d := record.Decoder{Bodiless: true}
	c := log.Cursor()
	from := eventstore.Position(x.Next())
	k, v := c.Seek(positionKey(from))
	for at := from; at <= last; at++ {
		r, err := eventstore.Stored{}, missing(at)
		if string(k) == string(positionKey(at)) {
			r, err = d.Decode(at, v)
			k, v = c.Next()
		}
		if err != nil {
			x.Unreadable(err)
			continue
		}
		var name *claims.Name
		if r.Claim != nil {
			name = new(nameOf(r.Stream.Project, r.Claim))
		}
		if err := x.Rebuild(uint64(at), r.Commit, name); err != nil {
			return err
		}
	}
	return nil
}
