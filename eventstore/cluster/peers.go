package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"payledger/eventstore/bolt"
	"payledger/eventstore/cluster/wire"
)

// What nodes ask each other, each at PREFIX.NODE.VERB. Numbers are big-endian. What is
// asked and answered under a verb never changes its form, since other nodes may run an
// older program: something else is a new verb, for which an older program has no
// responder. Only Status may get new members, which older programs leave out.
//
//	append  commits, each a part (package wire) -> answers to them
//	ask     question (8), asker -> nothing; the answer goes to PREFIX.ASKER.answer:
//	        question (8) number (8)
//	shown   question (8), asker -> nothing; the answer goes to PREFIX.ASKER.told:
//	        question (8) number (8) answerer
//	status  nothing -> number (8)
//	report  nothing -> Status in JSON
//	leave   node, or nothing for any -> left in JSON: the sequencer hands over to it
//	fetch   number (8) -> the groups from there on, as many as fit, each a part (package wire)
const (
	verbAppend = ".append"
	verbAsk    = ".ask"
	verbAnswer = ".answer"
	verbShown  = ".shown"
	verbTold   = ".told"
	verbStatus = ".status"
	verbReport = ".report"
	verbFetch  = ".fetch"
	verbLeave  = ".leave"

	// A peer has shown its certificate, but may be of another version or faulty. Longer
	// messages are dropped, and so are requests beyond those that wait.
	maxReport   = 16 << 10
	maxAppends  = 8192 // requests
	maxFetches  = 4
	maxPending  = 4096 // messages that the node has not looked at yet, of each verb
	pendingSize = 16 << 20

	peerTime   = 3 * time.Second
	appendTime = callTime // the caller waits no longer for the answer
	fetchBytes = 256 << 10
)

// listen answers the peers.
func (s *Store) listen() error {
	for verb, do := range map[string]func(*nats.Msg){
		verbAppend: func(m *nats.Msg) { s.serveBeside(s.appends, m, s.appendHere) },
		verbAsk: func(m *nats.Msg) {
			if q, from, ok := wire.Number(m.Data); ok && slices.Contains(s.peers, string(from)) {
				s.post(asked{nodeName(from), q})
			}
		},
		verbAnswer: func(m *nats.Msg) {
			if n, ok := wire.Numbers(m.Data, 2); ok {
				s.post(answered{n[0], n[1]})
			}
		},
		verbShown: func(m *nats.Msg) {
			if q, from, ok := wire.Number(m.Data); ok && slices.Contains(s.peers, string(from)) {
				s.post(asksShown{nodeName(from), q})
			}
		},
		verbTold: func(m *nats.Msg) {
			q, rest, _ := wire.Number(m.Data)
			if number, from, ok := wire.Number(rest); ok {
				s.post(told{nodeName(from), q, number})
			}
		},
		verbStatus: func(m *nats.Msg) {
			if s.stopped.Load() != nil {
				s.respond(m, nil) // what it has is not LOG's
				return
			}
			s.respond(m, binary.BigEndian.AppendUint64(nil, s.number()))
		},
		verbReport: func(m *nats.Msg) {
			b, err := json.Marshal(s.Status())
			if err != nil {
				s.report(err)
				return
			}
			s.respond(m, b)
		},
		verbLeave: func(m *nats.Msg) { s.serveBeside(s.leavings, m, s.leaveHere) },
		verbFetch: func(m *nats.Msg) { s.serveBeside(s.fetches, m, s.groupsFrom) },
	} {
		if err := s.on(verb, do); err != nil {
			return err
		}
	}
	sub, err := s.nc.Subscribe(electedSubject, s.elected)
	if err == nil {
		s.subs = append(s.subs, sub)
	}
	return err
}

// on answers one kind of messages.
func (s *Store) on(verb string, do func(*nats.Msg)) error {
	sub, err := s.nc.Subscribe(s.prefix+string(s.name)+verb, do)
	if err != nil {
		return err
	}
	s.subs = append(s.subs, sub)
	return sub.SetPendingLimits(maxPending, pendingSize)
}

// serveBeside answers a request beside the others that have a place, or with nothing:
// then it is sent again.
func (s *Store) serveBeside(places chan struct{}, m *nats.Msg, serve func([]byte) []byte) {
	select {
	case places <- struct{}{}:
		s.beside(func() {
			defer func() { <-places }()
			s.respond(m, serve(m.Data))
		})
	default:
		s.respond(m, nil)
	}
}

func (s *Store) respond(m *nats.Msg, b []byte) {
	if err := m.Respond(b); err != nil {
		s.report(err)
	}
}

// appendHere appends commits that a node has sent to this one as the sequencer.
func (s *Store) appendHere(b []byte) (out []byte) {
	commits, err := wire.DecodeCommits(b)
	if err != nil {
		s.report(fmt.Errorf("a peer's commits: %w", err))
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, appendTime)
	defer cancel()
	return wire.EncodeAnswers(s.Store.Append(ctx, commits...))
}

func (s *Store) askStatus(term uint64) {
	for _, p := range s.peers {
		s.beside(func() {
			if n, err := s.statusOf(p); err == nil { // else it is asked again
				s.post(status{nodeName(p), term, n})
			}
		})
	}
}

// statusOf is the number of the last group that a peer has.
func (s *Store) statusOf(peer string) (uint64, error) {
	reply, err := s.nc.Request(s.prefix+peer+verbStatus, nil, peerTime)
	if err != nil {
		return 0, err
	}
	n, ok := wire.Numbers(reply.Data, 1)
	if !ok {
		return 0, wire.ErrMalformed
	}
	return n[0], nil
}

func (s *Store) ask(x ask) {
	if x.to == s.name {
		s.post(asked{s.name, x.question})
		return
	}
	b := append(binary.BigEndian.AppendUint64(nil, x.question), s.name...)
	_ = s.nc.Publish(s.prefix+string(x.to)+verbAsk, b) // asked again
}

func (s *Store) answer(x answer) {
	if x.to == s.name {
		s.post(answered{x.question, x.number})
		return
	}
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, x.question), x.number)
	_ = s.nc.Publish(s.prefix+string(x.to)+verbAnswer, b) // asked again
}

func (s *Store) askShown(x askShown) {
	b := append(binary.BigEndian.AppendUint64(nil, x.question), s.name...)
	for _, p := range s.peers {
		_ = s.nc.Publish(s.prefix+p+verbShown, b) // the sequencer is asked then
	}
}

func (s *Store) tellShown(x tellShown) {
	b := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, x.question), x.number)
	_ = s.nc.Publish(s.prefix+string(x.to)+verbTold, append(b, s.name...)) // likewise
}

// groupsFrom are the groups of the own file from a number on.
func (s *Store) groupsFrom(b []byte) (out []byte) {
	asked, ok := wire.Numbers(b, 1)
	if !ok || s.stopped.Load() != nil || !s.progress.Load().sure {
		return nil // a log that differs, or may, is no source for the others
	}
	for n, end := asked[0], asked[0]+maxAhead; n <= s.number() && n < end && len(out) < fetchBytes; n++ {
		g, ok, err := s.Group(s.ctx, n)
		switch {
		case err != nil:
			s.report(err)
			return nil
		case !ok && s.number() >= n+bolt.KeptGroups:
			return nil // it is not known any more whether it had records
		case !ok:
			g = &bolt.Group{Number: n}
		}
		out = wire.AppendPart(out, wire.EncodeGroup(g))
	}
	return out
}

// fetch gets groups from the first peer that has any; the one in doubt is asked last.
func (s *Store) fetch(x fetch) {
	peers := slices.Clone(s.peers)
	if peers[0] == string(x.not) {
		slices.Reverse(peers)
	}
	for _, p := range peers {
		all, err := s.groupsOf(p, x.number)
		if err != nil {
			continue
		}
		for _, g := range all {
			if g.Number > s.number() {
				s.fetched.Add(1)
			}
			s.post(fetched{g, nodeName(p)})
		}
		return
	}
}

// groupsOf are groups of a peer's file from a number on, one at least.
func (s *Store) groupsOf(peer string, number uint64) ([]*bolt.Group, error) {
	reply, err := s.nc.Request(s.prefix+peer+verbFetch, binary.BigEndian.AppendUint64(nil, number), peerTime)
	if err != nil {
		return nil, err
	}
	all, err := wire.DecodeGroups(reply.Data, number, maxAhead)
	if err != nil {
		s.report(fmt.Errorf("groups from node %s: %w", peer, err))
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("node %s does not give group %d", peer, number)
	}
	return all, nil
}
