package cluster

import (
	"encoding/binary"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// listen answers the peers.
func (s *Store) listen() error {
	for verb, do := range map[string]func(*nats.Msg){
		verbAppend: func(m *nats.Msg) { s.beside(func() { s.respond(m, s.appendHere(m.Data)) }) },
		verbAsk: func(m *nats.Msg) {
			if q, from, ok := number(m.Data); ok {
				s.post(asked{nodeName(from), q})
			}
		},
		verbAnswer: func(m *nats.Msg) {
			if q, rest, ok := number(m.Data); ok {
				if n, _, ok := number(rest); ok {
					s.post(answered{q, n})
				}
			}
		},
		verbStatus: func(m *nats.Msg) { s.respond(m, binary.BigEndian.AppendUint64(nil, s.number())) },
		verbReport: func(m *nats.Msg) {
			b, err := json.Marshal(s.Status())
			if err != nil {
				s.report(err)
				return
			}
			s.respond(m, b)
		},
		verbFetch: func(m *nats.Msg) { s.beside(func() { s.respond(m, s.groupsFrom(m.Data)) }) },
	} {
		sub, err := s.nc.Subscribe(s.prefix+string(s.name)+verb, do)
		if err != nil {
			return err
		}
		s.subs = append(s.subs, sub)
	}
	return nil
}

func (s *Store) respond(m *nats.Msg, b []byte) {
	if err := m.Respond(b); err != nil {
		s.report(err)
	}
}

// appendHere appends commits that a node has sent to this one as the sequencer.
func (s *Store) appendHere(b []byte) (out []byte) {
	var commits []eventstore.Commit
	all, err := pieces(b)
	if err != nil {
		return nil
	}
	for _, piece := range all {
		c, err := commitOf(piece)
		if err != nil {
			return nil
		}
		commits = append(commits, c)
	}
	for _, a := range s.Store.Append(s.ctx, commits...) {
		out = parts(out, answerBytes(a))
	}
	return out
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
	n, _, ok := number(reply.Data)
	if !ok {
		err = errMessage
	}
	return n, err
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

// groupsFrom are the groups of the own file from a number on.
func (s *Store) groupsFrom(b []byte) (out []byte) {
	from, _, ok := number(b)
	if !ok {
		return nil
	}
	for n := from; n <= s.number() && len(out) < fetchBytes; n++ {
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
		out = parts(out, encode(g))
	}
	return out
}

// fetch gets groups from a peer, the first that has any if none is named.
func (s *Store) fetch(x fetch) {
	peers := s.peers
	if x.from != "" {
		peers = []string{string(x.from)}
	}
	for _, p := range peers {
		reply, err := s.nc.Request(s.prefix+p+verbFetch, binary.BigEndian.AppendUint64(nil, x.number), peerTime)
		if err != nil {
			continue
		}
		all, err := pieces(reply.Data)
		for _, piece := range all {
			g, damaged := decode(piece)
			if err = damaged; err != nil {
				break
			}
			if g.Number > s.number() {
				s.fetched.Add(1)
			}
			s.post(fed{g})
		}
		if err != nil {
			s.report(fmt.Errorf("groups from node %s: %w", p, err))
		}
		if len(all) > 0 {
			return
		}
	}
}
