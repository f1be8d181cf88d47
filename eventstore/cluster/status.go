package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/forms"
	"payledger/eventstore/cluster/founding"
	"payledger/eventstore/cluster/wire"
)

// Status is what a node knows of itself and of LOG.
type Status struct {
	Name     string              `json:"name"`
	Leader   string              `json:"leader,omitzero"`   // the sequencer, as far as known
	Leading  bool                `json:"leading"`           // it is this node
	Ready    bool                `json:"ready"`             // it is, and its file has LOG's end
	Group    uint64              `json:"group"`             // the last group that the file has
	GroupAt  time.Time           `json:"group_at,omitzero"` // when it got that group, by this node's clock; zero: before the start
	Newest   uint64              `json:"newest"`            // the greatest number of a group that was seen anywhere
	Position eventstore.Position `json:"position"`          // of the file's last record
	ReadAt   time.Time           `json:"read_at,omitzero"`  // when a true read last went on here

	// Counted since the start. Fetched groups came from a peer's file, because the
	// feed of LOG did not bring them: the replica of LOG that feeds this node is
	// damaged or slow. Republished ones had been forgotten by LOG.
	Fetched     uint64 `json:"fetched"`
	Republished uint64 `json:"republished"`

	LOG LOG `json:"log"`
	// Trouble is the last error that did not end the node's part, and when it was, until
	// the node gets a group, or a true read goes on and LOG answers.
	Trouble   string    `json:"trouble,omitzero"`
	TroubleAt time.Time `json:"trouble_at,omitzero"`
	// Stopped is why the node takes no part any more: its file and LOG differ, and it
	// has to be made again from a peer's. Empty: it takes part.
	Stopped string `json:"stopped,omitzero"`
	// Extra are events that the file of this node has and LOG has not, if it is stopped for
	// that: the first maxExtra, as POSITION KIND ID.
	Extra []string `json:"extra,omitzero"`
	// Unable is why nobody should hand over to this node just now, although it takes
	// part; empty: it could be the sequencer.
	Unable string `json:"unable,omitzero"`
	// Clock is the node's at the moment of the answer, AheadMillis how far it was ahead
	// of the nearest one of the others' when it last heard of both; below 0: behind it.
	Clock       time.Time `json:"clock"`
	AheadMillis int64     `json:"ahead_ms"`

	Program forms.Program `json:"program,omitzero"`
	// Silent is why the status of the node is not known: then only its name is set besides.
	Silent string `json:"silent,omitzero"`
}

// Lag is how many groups are known that the file does not have.
func (s Status) Lag() uint64 { return s.Newest - min(s.Newest, s.Group) }

// Ahead is AheadMillis.
func (s Status) Ahead() time.Duration { return time.Duration(s.AheadMillis) * time.Millisecond }

// LOG is JetStream's view of LOG, as the node's server last reported it.
type LOG struct {
	At       time.Time `json:"at,omitzero"` // zero: it never answered
	Leader   string    `json:"leader,omitzero"`
	First    uint64    `json:"first"`
	Last     uint64    `json:"last"`
	Bytes    uint64    `json:"bytes"`
	Replicas []Replica `json:"replicas,omitzero"` // other than the leader
}

// Replica is JetStream's view of one of LOG's replicas.
type Replica struct {
	Name    string    `json:"name"`
	Current bool      `json:"current"`
	Offline bool      `json:"offline"`
	Lag     uint64    `json:"lag"`      // messages
	HeardAt time.Time `json:"heard_at"` // when the leader last heard of it
}

// trouble is an error that did not end the node's part.
type trouble struct {
	err error
	at  time.Time
}

// doubted is a peer whose answer was wrong. It is shown for doubtTime.
type doubted struct {
	doubt
	at time.Time
}

const doubtTime = time.Minute

// progress is what the machine's goroutine shows to others.
type progress struct {
	leader               nodeName
	leading, ready, sure bool
	group, newest        uint64
	groupAt              time.Time
}

// show publishes what has changed.
func (s *Store) show() {
	n, before := s.node, s.progress.Load()
	p := *before
	p.leader, p.leading, p.ready, p.sure = n.forwarder.to, n.sequencer.leading, n.sequencer.ready, n.follower.sure
	if p.newest = n.follower.last; p.group != n.follower.number {
		p.group, p.groupAt = n.follower.number, s.now()
	}
	if p != *before {
		s.progress.Store(&p)
	}
}

// number is that of the last group that the file has, as the machine counts.
func (s *Store) number() uint64 { return s.progress.Load().group }

// Status is the node's. It reads memory alone, of a stopped node twenty records too.
func (s *Store) Status() Status {
	p := s.progress.Load()
	last, _ := s.Store.Last(s.ctx)
	st := Status{
		Name: string(s.name), Leader: string(p.leader), Leading: p.leading, Ready: p.ready,
		Group: p.group, GroupAt: p.groupAt, Newest: p.newest, Position: last,
		Fetched: s.fetched.Load(), Republished: s.republished.Load(),
	}
	if at := s.readAt.Load(); at != 0 {
		st.ReadAt = time.UnixMilli(at)
	}
	if l := s.log.Load(); l != nil {
		st.LOG = *l
	}
	if t := s.trouble.Load(); t != nil && t.at.After(st.GroupAt) && (t.at.After(st.ReadAt) || t.at.After(st.LOG.At)) {
		st.Trouble, st.TroubleAt = t.err.Error(), t.at
	}
	if why := s.stopped.Load(); why != nil {
		st.Stopped = (*why).Error()
		st.Extra = s.extra(*why)
	}
	st.Clock, st.AheadMillis = s.now(), s.ahead.Load()
	st.Program = s.forms.Program
	if why := s.unable.Load(); why != nil {
		st.Unable = *why
	}
	if s.withdrawn.Load() {
		st.Unable = "it is being stopped"
	}
	return st
}

// Statuses are those of all members, by name. One that does not answer in time is Silent.
func (s *Store) Statuses(ctx context.Context) []Status {
	all := make([]Status, len(s.peers), len(s.peers)+1)
	var asked sync.WaitGroup
	for i, p := range s.peers {
		asked.Go(func() {
			if err := s.reportOf(ctx, p, &all[i]); err != nil {
				all[i] = Status{Silent: err.Error()}
			}
			all[i].Name = p
			if all[i].Silent == "" && all[i].Stopped == "" {
				all[i].Unable = cmp.Or(all[i].Unable, s.doubts(all[i]))
			}
		})
	}
	asked.Wait()
	all = append(all, s.Status())
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

const maxExtra = 20

// extra lists what the file alone has.
func (s *Store) extra(why error) (lines []string) {
	mismatch, ok := errors.AsType[*bolt.MismatchError](why)
	if !ok || mismatch.From == 0 {
		return nil
	}
	for r, err := range s.Scan(s.ctx, mismatch.From-1, eventstore.Filter{}) {
		if err != nil || len(lines) == maxExtra {
			break
		}
		lines = append(lines, fmt.Sprintf("%d %s %s", r.Position, r.Stream.Kind, r.Stream.ID))
	}
	return lines
}

// doubts says what was wrong with a peer's answer; empty: no fault is known.
func (s *Store) doubts(st Status) string {
	end := s.number()
	if l := s.log.Load(); l != nil {
		end = max(end, l.Last)
	}
	if st.Group > end+mayLag {
		return fmt.Sprintf("it says that it has group %d, and LOG ends with group %d", st.Group, end)
	}
	if d := s.doubted.Load(); d != nil && string(d.peer) == st.Name && s.now().Before(d.at.Add(doubtTime)) {
		return d.why.Error()
	}
	return ""
}

func (s *Store) reportOf(ctx context.Context, peer string, to *Status) error {
	return askReport(ctx, s.nc, s.prefix+peer, to)
}

// StatusOf is the status of a node that takes part, for one that does not.
func StatusOf(ctx context.Context, c *nats.Conn, log domain.ID, node string) (s Status, err error) {
	err = askReport(ctx, c, founding.Nodes(log)+node, &s)
	return s, err
}

func askReport(ctx context.Context, c *nats.Conn, of string, to *Status) error {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	reply, err := c.RequestWithContext(ctx, of+verbReport, nil)
	switch {
	case err != nil:
		return err
	case len(reply.Data) > maxReport:
		return fmt.Errorf("%w: its status has %d bytes", wire.ErrMalformed, len(reply.Data))
	}
	return cmp.Or(json.Unmarshal(reply.Data, to), to.Program.Check())
}

// ended refuses what comes to a node that takes no part any more.
func (s *Store) ended() error {
	if why := s.stopped.Load(); why != nil {
		return fmt.Errorf("%w: %w", eventstore.ErrBusy, *why)
	}
	return nil
}

// heard keeps JetStream's view of LOG.
func (s *Store) heard(info *jetstream.StreamInfo) {
	l := &LOG{
		At: s.now(), Leader: string(s.leaderOf(info)), First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes,
	}
	if info.Cluster != nil {
		for _, r := range info.Cluster.Replicas {
			l.Replicas = append(l.Replicas, Replica{r.Name, r.Current, r.Offline, r.Lag, s.now().Add(-r.Active)})
		}
	}
	s.log.Store(l)
}
