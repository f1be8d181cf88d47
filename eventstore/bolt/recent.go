package bolt

import (
	"bytes"
	"errors"

	bbolt "go.etcd.io/bbolt"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt/record"
)

// maxRecent bounds the ids of one generation: if the clock jumped ahead, the log's
// time stands still until the clock is there, and no id would ever be forgotten.
const maxRecent = 1 << 20

// recentIDs finds the records of the newest commits by their ids, in two
// generations. When the active one is old and large enough, it takes the place of
// the other, which is forgotten. So the ids in the other one and the active one
// are at least those that eventstore.RecentTime and eventstore.RecentCommits ask
// for, and at most twice that.
type recentIDs struct {
	active, other map[domain.ID]eventstore.Position
	since         uint64 // the log's time in ms when the active generation began
	read          bool   // the records that were in the file have been read
}

// find returns the position of a recent commit, 0 if it is not known.
func (r *recentIDs) find(id domain.ID) eventstore.Position {
	if at := r.active[id]; at != 0 {
		return at
	}
	return r.other[id]
}

// add notes a commit, which may still be taken back.
func (r *recentIDs) add(id domain.ID, at eventstore.Position) {
	if r.active == nil {
		r.active = make(map[domain.ID]eventstore.Position)
	}
	r.active[id] = at
}

// remove takes back the newest commits.
func (r *recentIDs) remove(records []eventstore.Stored) {
	for i := range records {
		delete(r.active, records[i].Commit)
	}
}

// durable says that what was added is durable; newest is the greatest event id of
// the log, whose time is the log's.
func (r *recentIDs) durable(newest domain.ID) {
	now, n := newest.Time(), len(r.active)
	old := n >= eventstore.RecentCommits && now >= r.since+uint64(eventstore.RecentTime.Milliseconds())
	if old || n >= maxRecent {
		r.other, r.active, r.since = r.active, nil, now
	}
}

// readRecent reads the ids of the newest records before the first group: all of the
// last two RecentTimes, since a record may be somewhat younger than its id, and no
// fewer than RecentCommits. That waits until the branches of the file are known to
// be sound, because bbolt follows a circle of them for ever. A record that cannot be
// read is skipped: its commit is recognised as long as it is its stream's last.
func (s *Store) readRecent() error {
	if s.staging.recent.read {
		return nil
	}
	ids := recentIDs{read: true}
	err := s.view(s.tail.durable, func(tx *bbolt.Tx) error {
		newest := newestID(tx).Time()
		ids.since = newest
		d := record.Decoder{Bodiless: true}
		c := tx.Bucket(bucketRecords).Cursor()
		at := s.tail.durable
		for k, v := c.Last(); at > 0 && bytes.Equal(k, positionKey(at)) && len(ids.active) < maxRecent; k, v = c.Prev() {
			r, err := d.Decode(at, v)
			if err == nil {
				if len(ids.active) >= eventstore.RecentCommits && r.Commit.Time()+2*uint64(eventstore.RecentTime.Milliseconds()) < newest {
					break
				}
				ids.add(r.Commit, at)
			}
			at--
		}
		return nil
	})
	if errors.As(err, new(*eventstore.CorruptError)) {
		err = nil
	}
	if err == nil {
		s.staging.recent = ids
	}
	return err
}
