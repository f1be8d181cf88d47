package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

// What nodes ask each other, each at PREFIX.NODE.VERB. Numbers are big-endian.
//
//	append  commits, each as parts writes it -> answers to them
//	ask     question (8), asker -> nothing; the answer goes to PREFIX.ASKER.answer:
//	        question (8) number (8)
//	status  nothing -> number (8)
//	fetch   number (8) -> the groups from there on, as many as fit, each as parts writes it
const (
	verbAppend = ".append"
	verbAsk    = ".ask"
	verbAnswer = ".answer"
	verbStatus = ".status"
	verbFetch  = ".fetch"

	peerTime   = 3 * time.Second
	fetchBytes = 512 << 10
)

// parts writes pieces one behind the other, each with its length (4).
func parts(to, piece []byte) []byte {
	return append(binary.BigEndian.AppendUint32(to, uint32(len(piece))), piece...)
}

// pieces reads what parts wrote.
func pieces(b []byte) (all [][]byte, err error) {
	for len(b) > 0 {
		if len(b) < 4 || uint64(binary.BigEndian.Uint32(b)) > uint64(len(b)-4) {
			return nil, errMessage
		}
		n := 4 + binary.BigEndian.Uint32(b)
		all, b = append(all, b[4:n:n]), b[n:]
	}
	return all, nil
}

func number(b []byte) (uint64, []byte, bool) {
	if len(b) < 8 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint64(b), b[8:], true
}

// storedBytes is a record with its position (8).
func storedBytes(r *eventstore.Stored) []byte {
	return record.Append(binary.BigEndian.AppendUint64(nil, uint64(r.Position)), r)
}

func storedOf(b []byte) (eventstore.Stored, error) {
	p, b, ok := number(b)
	if !ok {
		return eventstore.Stored{}, errMessage
	}
	return record.Decode(eventstore.Position(p), b)
}

// commitBytes writes a commit as the record that it would be right behind the last
// one of its stream.
func commitBytes(c eventstore.Commit) []byte {
	return storedBytes(&eventstore.Stored{
		Position: c.Record.Expect + 1, Prev: c.Record.Expect, Sequence: 1, Stream: c.Record.Stream, Commit: c.ID, Claim: c.Claim, Body: c.Record.Body,
	})
}

func commitOf(b []byte) (eventstore.Commit, error) {
	r, err := storedOf(b)
	return eventstore.Commit{
		ID: r.Commit, Claim: r.Claim, Record: eventstore.Record{Stream: r.Stream, Expect: r.Prev, Body: r.Body},
	}, err
}

// The kinds of answers to a commit.
const (
	answerStored   = 'S' // the record
	answerConflict = 'C' // the stream's last position
	answerClaimed  = 'K' // the record that holds the key
	answerBusy     = 'B' // it was not taken up
	answerFull     = 'F' // likewise
	answerUnknown  = 'U' // it may be recorded
)

func answerBytes(a eventstore.Appended) []byte {
	var conflict *eventstore.ConflictError
	var claimed *eventstore.ClaimedError
	switch {
	case a.Err == nil:
		return append([]byte{answerStored}, storedBytes(&a.Stored)...)
	case errors.As(a.Err, &conflict):
		return binary.BigEndian.AppendUint64([]byte{answerConflict}, uint64(conflict.Actual))
	case errors.As(a.Err, &claimed):
		return append([]byte{answerClaimed}, storedBytes(&claimed.Value)...)
	case errors.Is(a.Err, eventstore.ErrBusy):
		return []byte{answerBusy}
	case errors.Is(a.Err, eventstore.ErrFull):
		return []byte{answerFull}
	}
	return []byte{answerUnknown}
}

// answerOf reads the answer to a commit; settled is false if it has to be sent again.
func answerOf(b []byte, c eventstore.Commit) (a eventstore.Appended, settled bool) {
	if len(b) == 0 {
		return a, false
	}
	var err error
	switch kind, rest := b[0], b[1:]; kind {
	case answerStored:
		a.Stored, err = storedOf(rest)
		if a.Commit == c.ID && string(a.Body) == string(c.Record.Body) {
			a.Event = c.Record.Event
		}
	case answerConflict:
		actual, _, ok := number(rest)
		a.Err = &eventstore.ConflictError{Stream: c.Record.Stream, Actual: eventstore.Position(actual)}
		return a, ok
	case answerClaimed:
		var r eventstore.Stored
		r, err = storedOf(rest)
		a.Err = &eventstore.ClaimedError{Value: r}
	case answerBusy:
		a.Err = eventstore.ErrBusy
	case answerFull:
		a.Err = eventstore.ErrFull
	default:
		return a, false
	}
	return a, err == nil
}

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
		verbStatus: func(m *nats.Msg) { s.respond(m, binary.BigEndian.AppendUint64(nil, s.number.Load())) },
		verbFetch:  func(m *nats.Msg) { s.beside(func() { s.respond(m, s.groupsFrom(m.Data)) }) },
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
	for _, a := range s.appendOwn(commits) {
		out = parts(out, answerBytes(a))
	}
	return out
}

// tooOld is how much older than the log's newest id a commit may be: what is staged
// must still be recognised if it is there already (eventstore.RecentTime).
const tooOld = 30 * time.Second

// appendOwn gives commits to the own committer.
func (s *Store) appendOwn(commits []eventstore.Commit) []eventstore.Appended {
	results := make([]eventstore.Appended, len(commits))
	newest, err := s.LastID(s.ctx)
	var fresh []eventstore.Commit
	var places []int
	for i, c := range commits {
		switch {
		case err != nil:
			results[i].Err = err
		case domain.IDTime(c.ID).Add(tooOld) < domain.IDTime(newest):
			results[i].Err = errTakenBack
		default:
			fresh, places = append(fresh, c), append(places, i)
		}
	}
	for i, a := range s.Store.Append(s.ctx, fresh...) {
		results[places[i]] = a
	}
	return results
}

// send sends the commits of a call to the sequencer.
func (s *Store) send(x send) {
	s.mu.Lock()
	c := s.calls[x.call]
	s.mu.Unlock()
	if c == nil {
		return
	}
	var answers [][]byte
	var here []eventstore.Appended
	if x.to == s.name {
		here = s.appendOwn(c.commits)
	} else {
		var request []byte
		for _, commit := range c.commits {
			request = parts(request, commitBytes(commit))
		}
		reply, err := s.nc.Request(s.prefix+string(x.to)+verbAppend, request, peerTime)
		if err == nil {
			answers, err = pieces(reply.Data)
		}
		if err != nil || len(answers) != len(c.commits) {
			s.post(lost{x.call})
			return
		}
	}
	left := &waitingCall{ctx: c.ctx, results: c.results, done: c.done}
	settled := make(map[int]eventstore.Appended)
	for i, commit := range c.commits {
		var a eventstore.Appended
		var ok bool
		if here != nil {
			a, ok = here[i], !unsettled(here[i].Err)
		} else {
			a, ok = answerOf(answers[i], commit)
		}
		if ok {
			settled[c.places[i]] = a
		} else {
			left.commits, left.places = append(left.commits, commit), append(left.places, c.places[i])
		}
	}
	s.settle(x.call, c, left, settled)
}

// unsettled reports whether a commit may be recorded although its answer is this.
func unsettled(err error) bool {
	return errors.Is(err, errTakenBack) || errors.Is(err, eventstore.ErrClosed) || errors.As(err, new(*eventstore.FatalError))
}

// settle hands out results; what is left of the call is sent again.
func (s *Store) settle(id uint64, c, left *waitingCall, settled map[int]eventstore.Appended) {
	s.mu.Lock()
	if s.calls[id] != c {
		s.mu.Unlock()
		return // its caller is gone
	}
	for i, a := range settled {
		c.results[i] = a
	}
	if len(left.commits) > 0 {
		s.calls[id] = left
		s.mu.Unlock()
		s.post(lost{id})
		return
	}
	delete(s.calls, id)
	s.mu.Unlock()
	s.post(replied{id})
	close(c.done)
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
	for n := from; n <= s.number.Load() && len(out) < fetchBytes; n++ {
		g, ok, err := s.Group(s.ctx, n)
		switch {
		case err != nil:
			s.report(err)
			return nil
		case !ok && s.number.Load() >= n+bolt.KeptGroups:
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
