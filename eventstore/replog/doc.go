// Package replog keeps the event log on three nodes, any one of which may die.
//
// Every node has its own whole file (package bolt), byte for byte that of a single node. A
// JetStream stream with three replicas, LOG, is their common write-ahead log: one message
// is one group of commits. One node at a time, the leader, stages a group in a transaction
// of its file, publishes it, and commits the transaction once LOG has taken the message;
// only then are the commits answered. So an answer means that a majority of LOG's servers
// and the leader's file have the group on disk: JetStream is never the only copy. The
// others follow LOG and add the same records.
//
// # The rules, and why
//
// Address. A group says which position and record it follows: the address of its first
// record. LOG's own sequence is only what publications are compared by, and no file knows
// it. So records that a file has are skipped if they are equal, those that fit are added,
// and anything else is a gap or a divergence. A file with a gap is completed from the
// leader's; a file that diverges is of another history: the node stops and says where.
//
// Slot. A publication expects a number to be LOG's last, so a slot is decided once, by
// LOG, whoever publishes: two leaders at a time are slow and harmless. A slot is taken
// by a group if LOG says so in an acknowledgement with that number that is no duplicate,
// or if the feed shows the group's nonce there. Everything else, a wrong last sequence (10071)
// included, says nothing: a leader of LOG that was deposed counts proposals that may never
// be committed, and a message without an answer may be committed later. Then the same bytes
// are published for the same slot again, until the feed shows what took it. A nonce names
// exact bytes. If another group took the slot, the staged one is rolled back, with what it
// left in memory, and its commits were not recorded.
//
// One group in flight. A second one would be staged upon records that LOG may not take.
//
// Reads. The leader cannot know from its file that it still is the leader. It knows when a
// group is accepted that it published after the question arrived: then nobody else's was in
// between. So questions ride on the next group; when none comes, a group without records, a
// barrier, is published for all that wait. A group under way serves no question that comes
// later: it may have been accepted long ago, with others behind it, and only the answer be
// late. No clock and no lease is trusted. Nobody but the leader answers. Refusals are reads: a
// group in which all commits were refused is published too, without records.
//
// Becoming the leader. Who leads is a matter of liveness alone: the node whose server leads
// LOG. Its file needs all that LOG has. Then it asks both peers where their files end, and
// waits for one answer at least: a file that is longer was acknowledged, and LOG has forgotten
// it. It is copied, what is behind LOG's end is published again, and last a barrier, whose
// acceptance shows that LOG ends there. Not covered is what is only in the file of a node
// that cannot be reached: if LOG goes on meanwhile, that node stops when it is back.
//
// LOG lost. If the servers say for two seconds that there is no LOG, any node makes an empty
// one, which JetStream allows only while all three servers are up. An empty LOG does not say
// which file is the longest, so its leader needs both peers' answers. It is the same when
// LOG begins for the first time. Each incarnation of LOG has a subject of its own: a
// publication that is late by a whole incarnation finds no stream. And a peer that answers
// neither adds nor commits anything of an earlier incarnation from then on.
//
// Leaving. A leader that is to be stopped, or cannot do its work because its disk is full or
// its clock is off both peers', ends what it has under way and has LOG elect a peer.
//
// Trimming. LOG is trimmed behind what all three have, but for its last message, and before
// it is full.
//
// Erasure. Details of a record can be erased, and what JetStream was told to delete may stay
// in its blocks and in the logs of its raft groups for a time that it does not say. So a message
// has details only encrypted, under a key that follows from the cluster's key and the group's
// nonce. Not covered is who has both that key, which is not replaced when details are erased,
// and JetStream's files from before they were: it opens what of these JetStream has not written
// over yet.
//
// # The parts
//
// machine is one node's part, single-threaded: step takes an event and returns effects,
// without clocks, goroutines or I/O. The simulation in the tests plays three of them against
// models of the file, of the network and of what JetStream promises, with crashes, pauses,
// partitions, lost, late, repeated and reordered messages, clocks that jump, and a LOG that
// forgets or is gone. For each of the rules there is a flaw that breaks it, and the simulation
// has to notice. A failure prints its seed:
//
//	PAYLEDGER_SEED=17 go test ./eventstore/replog -run TestSimulation
//
// Store drives the machine: log.go is LOG, peers.go what nodes ask each other over HTTP.
package replog
