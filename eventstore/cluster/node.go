package cluster

import (
	"encoding/binary"
	"time"

	"payledger/eventstore/bolt"
)

// An event is an input of the machine node, an effect an output, which Store carries out.
// Times are those of a clock that only has to run forward at about the right speed.
type (
	event  any
	effect any
)

// Events from the node's own committer and file.
type (
	// staged: the committer has staged a group and waits for the decision.
	staged struct{ group *bolt.Group }
	// committed: the group that was decided for is durable in the own file.
	committed struct{}
	// applied: the group that was to be applied is durable in the own file.
	applied struct{}
	// misfit: the group that was to be applied does not follow from the own file, or this
	// program cannot read it.
	misfit struct{ why error }
	// matched: LOG and the own file have the same group of a number.
	matched struct{}
	// mismatched: LOG and the own file have different groups of the same number.
	mismatched struct{ why error }
	// bridged: the group of this number, which LOG has, follows from the own file.
	bridged struct{ number uint64 }
)

// Events from LOG.
type (
	// fed: LOG has this group.
	fed struct{ group *bolt.Group }
	// fetched: the file of a peer has this group.
	fetched received
	// accepted: LOG acknowledged the publication with this nonce, at this number,
	// not as a duplicate.
	accepted struct {
		nonce  bolt.Nonce
		number uint64
	}
	// unknown: the publication with this nonce has any other outcome: a time-out, no
	// responders, a wrong sequence. It may still be accepted.
	unknown struct{ nonce bolt.Nonce }
	// ended: LOG said that its last group has this number, which may be old news.
	ended struct{ number uint64 }
	// leads: whether this node is to be the sequencer.
	leads struct{ yes bool }
	// leaves: this node is to cease to be the sequencer, in favour of a peer.
	leaves struct{ to nodeName }
	// ends: this node, the sequencer, is to end LOG.
	ends struct{}
	// asksNoMore: LOG has answered stepDown with a name, or did not in time.
	asksNoMore struct{}
	// sequencing: which node is the sequencer, as far as is known; empty: none.
	sequencing struct{ name nodeName }
)

// Events from the node's peers and from its own callers.
type (
	// asked: a node wants to know up to which group it must have applied to answer
	// the reads that it has collected in this question.
	asked struct {
		from     nodeName
		question uint64
	}
	// answered is the sequencer's answer to the own question.
	answered struct{ question, number uint64 }
	// asksShown: a peer wants to know what reads of this node's file may have shown.
	asksShown struct {
		from     nodeName
		question uint64
	}
	// told is a peer's answer to the own question.
	told struct {
		from             nodeName
		question, number uint64
	}
	// status: a peer has applied the groups up to this number, which it says when it
	// is asked. term is the question's.
	status struct {
		from         nodeName
		term, number uint64
	}
	// reading: a read arrived that must be true.
	reading struct{ read uint64 }
	// calling: commits arrived that are to be appended.
	calling struct{ call uint64 }
	// replied: the sequencer has answered all commits of the call.
	replied struct{ call uint64 }
	// lost: the call was not answered, or not by a sequencer. Its commits may have
	// been recorded.
	lost struct{ call uint64 }
	// tick comes some twenty times a second.
	tick struct{}
)

// Effects.
type (
	// publish publishes the group, which expects the number before its own to be
	// LOG's last. It ends in accepted or unknown.
	publish struct{ group *bolt.Group }
	// conclude: LOG has ended with this group. It ends in mismatched.
	conclude struct{ group *bolt.Group }
	// republish publishes the group of that number from a file, or one without records
	// where the file has none, and then looks. From the own file, if none is named: then
	// LOG's last group has to be the file's, else it ends in mismatched. From a peer's: then
	// the group has to follow from the own file, else nothing is published.
	republish struct {
		from   nodeName
		number uint64
	}
	// doubt names a peer whose groups cannot be fetched although it says that it has them,
	// or that has sent a group which does not follow.
	doubt struct {
		peer nodeName
		why  error
	}
	// look asks LOG for its end.
	look struct{}
	// decide answers the committer: the staged group, with its number, is committed,
	// or with nil it is taken back.
	decide struct{ group *bolt.Group }
	// apply applies the group to the own file; it ends in applied or misfit.
	apply struct{ group *bolt.Group }
	// compare compares the group with the one that the own file has in its place, and
	// compareEnd LOG's last one, which has the number. They end in matched or mismatched.
	compare    struct{ group *bolt.Group }
	compareEnd struct{ number uint64 }
	// bridge asks whether the group follows from the own file, although groups before it
	// are missing: those had no records. It may end in bridged.
	bridge struct{ group *bolt.Group }
	// fetch asks a peer, rather another one than is named, for its groups from the number
	// on, which come as fetched.
	fetch struct {
		not    nodeName
		number uint64
	}
	// askStatus asks all peers for their status.
	askStatus struct{ term uint64 }
	// ask asks the sequencer.
	ask struct {
		to       nodeName
		question uint64
	}
	// askShown asks all peers what reads of their files may have shown.
	askShown struct{ question uint64 }
	// tellShown answers asksShown.
	tellShown struct {
		to               nodeName
		question, number uint64
	}
	// answer answers a node's question, perhaps the own one.
	answer struct {
		to               nodeName
		question, number uint64
	}
	// serve lets a read go on: the own file has all it must see. With failed, it is
	// refused: that could not be found out in time.
	serve struct {
		read   uint64
		failed bool
	}
	// send sends the commits of a call to the sequencer, perhaps to the own committer.
	send struct {
		to   nodeName
		call uint64
	}
	// giveUp answers a call whose commits may have been recorded.
	giveUp struct{ call uint64 }
	// stepDown asks LOG for another leader, any if the name is empty: then this node
	// cannot sequence. With a name it ends in asksNoMore.
	stepDown struct{ to nodeName }
	// stop ends the node's part in the cluster: its file and LOG differ.
	stop struct{ why error }
)

// nodeName names a node; empty: none.
type nodeName string

// node is one node's part in the cluster: what its three state machines share is the
// number of the last group that its file has.
type node struct {
	follower  follower
	sequencer sequencer
	forwarder forwarder
	stopped   bool
}

// newNode is a node whose file has the groups up to number. start differs from that
// of every other start of any node.
func newNode(name nodeName, peers []nodeName, start [8]byte, number uint64) *node {
	n := &node{follower: follower{number: number, last: number, sure: number == 0}}
	n.sequencer = sequencer{start: start, follower: &n.follower}
	// Answers to questions of an earlier start are either below the own ones or above.
	n.forwarder = forwarder{self: name, peers: peers, question: binary.BigEndian.Uint64(start[:]) >> 1}
	return n
}

// step is the node's only entry: it takes an event and returns what is to be done.
func (n *node) step(now time.Duration, e event) []effect {
	if n.stopped {
		switch e := e.(type) {
		case staged:
			return []effect{decide{}}
		case reading:
			return []effect{serve{read: e.read, failed: true}}
		case calling:
			return []effect{giveUp(e)}
		case leads:
			if e.yes {
				return []effect{stepDown{}}
			}
		}
		return nil
	}
	var out []effect
	switch e := e.(type) {
	case fed:
		out = n.sequencer.fed(e.group)
		out = append(out, n.follower.fed(now, received{group: e.group})...)
	case fetched:
		out = n.follower.fed(now, received(e))
	case bridged:
		n.follower.bridged(e.number)
	case applied:
		out = n.follower.done()
	case misfit:
		peer := n.follower.misfit()
		if peer == "" {
			return n.stop(now, e.why)
		}
		out = []effect{doubt{peer, e.why}}
	case matched:
		n.follower.sure = true
	case mismatched:
		return n.stop(now, e.why)
	case staged, committed, accepted, unknown, ended, leads, leaves, ends, asksNoMore, asked, status:
		out = n.sequencer.step(now, e)
	case answered:
		if e.number <= n.follower.number+bolt.KeptGroups { // else it is no answer
			out = n.forwarder.step(now, e)
		}
	case told:
		if e.number <= n.follower.number+bolt.KeptGroups {
			out = n.forwarder.step(now, e)
		}
	case asksShown:
		if n.forwarder.current && n.follower.sure {
			out = []effect{tellShown{e.from, e.question, n.shown()}}
		}
	case sequencing, reading, calling, replied, lost:
		out = n.forwarder.step(now, e)
	case tick:
		out = append(n.sequencer.tick(now), n.follower.tick(now)...)
		out = append(out, n.forwarder.tick(now)...)
	}
	out = append(out, n.sequencer.yield()...)
	out = append(out, n.follower.next()...)
	out = append(out, n.sequencer.next(now)...)
	return append(out, n.forwarder.reached(n.follower.number)...)
}

// shown is the number of the last group that a read of the file may have shown: the file
// may have one already whose commit the machine has not heard of.
func (n *node) shown() uint64 {
	if f := n.sequencer.flight; n.follower.now.group != nil || (f != nil && f.landed) {
		return n.follower.number + 1
	}
	return n.follower.number
}

// stop ends the node's part: what waits is refused, and a call's commits may have been
// recorded.
func (n *node) stop(now time.Duration, why error) []effect {
	n.stopped = true
	out := append([]effect{stop{why}}, n.sequencer.lead(now, false)...)
	return append(out, n.forwarder.end()...)
}
