package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/founding"
	"payledger/eventstore/cluster/wire"
)

// StreamName is the name of LOG, Subject where it takes its messages.
const (
	StreamName = founding.Stream
	Subject    = founding.Subject

	publishTime = 2 * time.Second
	hearEvery   = 250 * time.Millisecond
	lookForLOG  = 50 * time.Millisecond
	lookTime    = 250 * time.Millisecond // at first: nobody answers for a stream that is being made
	feedBeat    = 500 * time.Millisecond // of the feed's consumer: a dead one is noticed within two
)

// findLOG waits for LOG, or founds it.
func (s *Store) findLOG(ctx context.Context, c Config) (b founding.Base, err error) {
	r, err := s.Replica()
	if err != nil {
		return b, err
	}
	answer := lookTime
	try := func() (jetstream.Stream, error) {
		looking, looked := context.WithTimeout(ctx, answer)
		defer looked()
		stream, err := s.js.Stream(looking, StreamName)
		ctx, cancel := context.WithTimeout(ctx, publishTime)
		defer cancel()
		if errors.Is(err, jetstream.ErrStreamNotFound) && c.Found && r.Log.IsZero() {
			if c.Prepare != nil {
				if err := c.Prepare(ctx, s.LogID()); err != nil {
					return nil, err
				}
			}
			return founding.Make(ctx, s.js, founding.Base{Ledger: s.LogID(), LOG: c.LOG, Last: r.Last, Sum: fmt.Sprintf("%x", r.Sum)})
		}
		return stream, err
	}
	for {
		stream, err := try()
		if err == nil {
			return founding.Of(stream.CachedInfo().Config)
		}
		err = fmt.Errorf("waiting for LOG: %w", err)
		if s.lost(err) && !r.Log.IsZero() {
			err = errLost
		}
		s.report(err)
		select {
		case <-ctx.Done():
			return b, errors.Join(ctx.Err(), err)
		case <-time.After(lookForLOG):
			answer = min(2*answer, publishTime)
		}
	}
}

// publish publishes a message for a slot: nil if LOG took it, in this slot. Any error
// leaves it unknown.
func (s *Store) publish(number uint64, message []byte) error {
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	ack, err := s.js.Publish(ctx, Subject, message, jetstream.WithExpectStream(StreamName),
		jetstream.WithExpectLastSequence(number-1), jetstream.WithRetryAttempts(0))
	switch {
	case err != nil:
		return err
	case ack.Stream != StreamName, ack.Sequence != number, ack.Duplicate:
		return fmt.Errorf("LOG answered with sequence %d of %s", ack.Sequence, ack.Stream)
	}
	return nil
}

// feed shows the machine LOG's groups in order, from the file's last one on, so that
// this one is compared.
func (s *Store) feed() {
	for s.ctx.Err() == nil {
		if err := s.feedOnce(); err != nil {
			s.report(err)
			s.sleep(retryAfter)
		}
	}
}

func (s *Store) feedOnce() error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	s.mu.Lock()
	from := s.next
	s.rewind = cancel
	s.mu.Unlock()
	consumer, err := s.js.OrderedConsumer(s.ctx, StreamName, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		return fmt.Errorf("reading LOG: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(maxAhead), jetstream.PullHeartbeat(feedBeat))
	if err != nil {
		return fmt.Errorf("reading LOG: %w", err)
	}
	stop := context.AfterFunc(ctx, messages.Stop)
	defer func() {
		stop()
		messages.Stop()
	}()
	for first := true; ; first = false {
		// An ordered consumer that is being made anew misses a Stop.
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return fmt.Errorf("reading LOG: %w", err)
		}
		meta, err := m.Metadata()
		if err != nil {
			return err
		}
		g, err := wire.DecodeGroup(m.Data())
		if err != nil || g.Number != meta.Sequence.Stream {
			return fmt.Errorf("message %d of LOG: it is damaged, or not ours: %w", meta.Sequence.Stream, errors.Join(err, wire.ErrMalformed))
		}
		for !first && g.Number > s.number()+maxAhead/2 && s.ctx.Err() == nil {
			s.sleep(time.Millisecond)
		}
		s.mu.Lock()
		if ctx.Err() == nil {
			s.next = g.Number + 1
		}
		s.mu.Unlock()
		s.post(fed{g})
	}
}

// feedAgain lets the feed show what LOG takes in a slot that it has shown already:
// LOG has forgotten its end, or the news of its end is old.
func (s *Store) feedAgain(slot uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot < s.next {
		s.next = slot
		s.rewind()
	}
}

// electedSubject is where JetStream says that LOG has a new leader.
const electedSubject = "$JS.EVENT.ADVISORY.STREAM.LEADER_ELECTED." + StreamName

// elected takes up who leads LOG now.
func (s *Store) elected(m *nats.Msg) {
	var news struct {
		Leader string `json:"leader"`
	}
	if err := json.Unmarshal(m.Data, &news); err != nil || news.Leader == "" {
		return // it is asked for
	}
	s.newest(s.turns.Add(1), func() {
		s.post(leads{nodeName(news.Leader) == s.name})
		s.post(sequencing{nodeName(news.Leader)})
	})
	s.beside(s.hear)
}

// newest takes up an answer about LOG, unless one to a later question was taken up before.
func (s *Store) newest(turn uint64, take func()) {
	s.hearing.Lock()
	defer s.hearing.Unlock()
	if turn > s.turn {
		s.turn = turn
		take()
	}
}

// hear asks who leads LOG, and where it ends. While LOG has no leader nobody answers,
// so it may be asked again meanwhile.
func (s *Store) hear() {
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	turn, before := s.turns.Add(1), s.number()
	stream, err := s.js.Stream(ctx, StreamName)
	if s.lost(err) {
		err = errLost
	}
	if err != nil {
		s.report(fmt.Errorf("asking for LOG: %w", err))
		return
	}
	s.newest(turn, func() { s.learn(stream.CachedInfo(), before) })
}

// learn takes up what LOG said of itself; before is the last group that the file had
// when it was asked.
func (s *Store) learn(info *jetstream.StreamInfo, before uint64) {
	s.heard(info)
	leader := s.leaderOf(info)
	s.post(leads{leader == s.name})
	s.post(sequencing{leader})
	end := info.State.LastSeq
	if end >= before {
		end = max(end, s.number()) // which LOG has taken meanwhile
	} else {
		s.feedAgain(end + 1)
	}
	s.post(ended{end})
}

// leaderOf is the node whose server leads LOG; a server alone leads it always.
func (s *Store) leaderOf(info *jetstream.StreamInfo) nodeName {
	if info.Cluster == nil {
		return s.name
	}
	return nodeName(info.Cluster.Leader)
}

// trimEvery is how often the sequencer looks whether LOG can be shorter.
const trimEvery = 10 * time.Second

// trim removes from LOG what all members have in their files. A member that does not
// answer, or stays behind, keeps LOG from being trimmed until it is three quarters full;
// then half of it goes, and that member gets what it lacks from a peer.
func (s *Store) trim() {
	if !s.progress.Load().leading {
		return
	}
	ctx, cancel := context.WithTimeout(s.ctx, publishTime)
	defer cancel()
	stream, err := s.js.Stream(ctx, StreamName)
	if err != nil {
		return
	}
	state := stream.CachedInfo().State
	all, upTo := true, s.number()
	for _, p := range s.peers {
		n, err := s.statusOf(p)
		all = all && err == nil
		if err == nil {
			upTo = min(upTo, n)
		}
	}
	full := state.Msgs >= bolt.KeptGroups/4*3 || state.Bytes >= founding.MaxBytes/4*3
	switch half := min(s.number(), state.FirstSeq+state.Msgs/2); {
	case full && (!all || upTo < half):
		upTo = half
	case !all:
		return
	}
	if upTo > state.FirstSeq {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(upTo)); err != nil {
			s.report(fmt.Errorf("trimming LOG: %w", err))
		}
	}
}
