package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore/cluster/wire"
)

// mayLag is how many groups the next sequencer may lack. It applies them before it
// answers anything.
const mayLag = maxAhead

const (
	askTime   = time.Second           // for the peers' statuses before a hand-over
	lookEvery = 10 * time.Millisecond // whether the next one is ready
)

// A HandOverError says why a node does not become the sequencer. Nothing has changed.
type HandOverError struct{ Why string }

func (e *HandOverError) Error() string { return e.Why }

// HandOver makes a node the sequencer, or with "" the ablest peer of the present one,
// and returns its name once it has found LOG's end. Any node may be asked. The present
// sequencer first ends what it has under way, and commits and reads that come meanwhile
// wait for the next one. It fails with a *HandOverError, and with ctx.
func (s *Store) HandOver(ctx context.Context, to string) (string, error) {
	from := s.progress.Load().leader
	var err error
	switch {
	case from == "":
		return "", &HandOverError{"there is no sequencer just now: try again"}
	case string(from) == to:
		return to, s.await(ctx, from, to)
	case from == s.name:
		to, err = s.leaveTo(ctx, to)
	default:
		to, err = s.askToLeave(ctx, from, to)
	}
	if err != nil {
		return "", err
	}
	return to, s.await(ctx, from, to)
}

// Withdraw ends this node's time as the sequencer before it is stopped, if it is the
// sequencer. Nobody hands over to it from then on.
func (s *Store) Withdraw(ctx context.Context) error {
	s.withdrawn.Store(true)
	if !s.progress.Load().leading {
		return nil
	}
	_, err := s.HandOver(ctx, "")
	return err
}

// An EndedError says that the cluster has ended and which node goes on alone.
type EndedError struct{ Heir string }

func (e *EndedError) Error() string {
	return fmt.Sprintf("the cluster has ended, and node %s goes on alone", e.Heir)
}

// HeirName is the node that bolt.Replica names as the heir; empty: none.
func HeirName(id domain.ID) string { return string(bytes.TrimRight(id[:], "\x00")) }

// EndLOG makes this node the sequencer and ends LOG. From then on no node appends anything,
// and the file of this one, which has all that was answered, goes on alone. If it fails,
// LOG may have ended all the same.
func (s *Store) EndLOG(ctx context.Context) error {
	if _, err := s.HandOver(ctx, string(s.name)); err != nil {
		return err
	}
	for {
		s.post(ends{})
		if err := s.stopped.Load(); err != nil {
			if ended, ok := errors.AsType[*EndedError](*err); ok && ended.Heir == string(s.name) {
				return nil
			}
			return *err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not known whether LOG has ended: %w", ctx.Err())
		case <-time.After(lookEvery):
		}
	}
}

// await waits until a node is the sequencer.
func (s *Store) await(ctx context.Context, from nodeName, to string) error {
	for {
		var st Status
		err := s.reportOf(ctx, to, &st)
		if err == nil && st.Ready {
			return nil
		}
		if now := s.progress.Load().leader; now != "" && now != from && string(now) != to {
			return &HandOverError{fmt.Sprintf("node %s has become the sequencer instead of %s: see \"payledger cluster status\"", now, to)}
		}
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("node %s was asked to become the sequencer and is not yet: %w", to, ctx.Err()), err)
		case <-time.After(lookEvery):
		}
	}
}

// leaveTo has this node, the sequencer, hand over.
func (s *Store) leaveTo(ctx context.Context, to string) (string, error) {
	if !s.progress.Load().ready {
		return "", &HandOverError{fmt.Sprintf("node %s is not the sequencer, or only just becomes it: try again", s.name)}
	}
	to, err := s.heir(ctx, to)
	if err == nil {
		s.post(leaves{nodeName(to)})
	}
	return to, err
}

// heir is the node that can be the next sequencer: the one that is named, else the peer
// with the longest file.
func (s *Store) heir(ctx context.Context, named string) (heir string, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var errs []error
	var most uint64
	for _, st := range s.Statuses(ctx) {
		if st.Name == string(s.name) || (named != "" && st.Name != named) {
			continue
		}
		if why := s.unfit(st); why != "" {
			errs = append(errs, fmt.Errorf("node %s %s", st.Name, why))
			continue
		}
		if heir == "" || st.Group > most {
			heir, most = st.Name, st.Group
		}
	}
	switch {
	case heir != "":
		return heir, nil
	case len(errs) == 0:
		return "", &HandOverError{fmt.Sprintf("there is no other node %s", named)}
	}
	return "", &HandOverError{errors.Join(errs...).Error()}
}

// unfit says why a node cannot be the next sequencer; empty: it can.
func (s *Store) unfit(st Status) string {
	switch {
	case st.Silent != "":
		return "does not answer: " + st.Silent
	case st.Stopped != "":
		return "takes no part any more: " + st.Stopped
	case st.Unable != "":
		return "cannot be the sequencer: " + st.Unable
	case st.Group+mayLag < s.number():
		return fmt.Sprintf("is behind by %d groups: wait until it has them", s.number()-st.Group)
	}
	if l := s.log.Load(); l != nil {
		for _, r := range l.Replicas {
			if r.Name == st.Name && (r.Offline || r.Lag > mayLag) {
				return fmt.Sprintf("has a replica of LOG that is away, or behind by %d messages: wait until it has them", r.Lag)
			}
		}
	}
	return ""
}

// stepDown asks for another sequencer.
func (s *Store) stepDown(to nodeName) {
	err := s.askForLeader(to)
	switch {
	case to == "":
		s.report(errors.Join(errors.New("this node cannot sequence and asks for another sequencer"), err))
	case err != nil:
		s.report(fmt.Errorf("asking for node %s as the sequencer: %w", to, err))
	}
}

// askForLeader asks LOG for another leader.
func (s *Store) askForLeader(to nodeName) error {
	var request []byte
	if to != "" {
		request = fmt.Appendf(nil, `{"placement":{"preferred":%q}}`, to)
	}
	reply, err := s.nc.Request("$JS.API.STREAM.LEADER.STEPDOWN."+StreamName, request, publishTime)
	if err == nil {
		err = refusal(reply.Data)
	}
	if to != "" {
		// What is heard of the leader by an older question is out of date. asksNoMore is
		// posted in every case.
		s.hearing.Lock()
		s.turn = s.turns.Add(1)
		s.post(asksNoMore{})
		s.hearing.Unlock()
	}
	return err
}

// refusal is the error in an answer of JetStream's API, if it has one.
func refusal(reply []byte) error {
	var a struct {
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(reply, &a); err != nil {
		return fmt.Errorf("%w: %w", wire.ErrMalformed, err)
	}
	if a.Error != nil {
		return a.Error
	}
	return nil
}

// left is the answer to a request to hand over.
type left struct {
	To    string `json:"to,omitzero"`
	Error string `json:"error,omitzero"`
}

// askToLeave asks the sequencer to hand over.
func (s *Store) askToLeave(ctx context.Context, from nodeName, to string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, peerTime)
	defer cancel()
	reply, err := s.nc.RequestWithContext(ctx, s.prefix+string(from)+verbLeave, []byte(to))
	if err != nil {
		return "", fmt.Errorf("asking node %s to hand over: %w", from, err)
	}
	if len(reply.Data) == 0 {
		return "", &HandOverError{fmt.Sprintf("node %s is handing over already: look at \"payledger cluster status\"", from)}
	}
	var l left
	if err := json.Unmarshal(reply.Data, &l); err != nil {
		return "", fmt.Errorf("%w: node %s: %w", wire.ErrMalformed, from, err)
	}
	if l.Error != "" {
		return "", &HandOverError{l.Error}
	}
	return l.To, nil
}

// leaveHere answers a peer that asks this node to hand over.
func (s *Store) leaveHere(to []byte) []byte {
	var l left
	var err error
	if len(to) > 0 && !slices.Contains(s.peers, string(to)) {
		err = errors.New("there is no such node to hand over to")
	} else {
		l.To, err = s.leaveTo(s.ctx, string(to))
	}
	if err != nil {
		l.Error = err.Error()
	}
	b, err := json.Marshal(l)
	if err != nil {
		s.report(err)
	}
	return b
}
