// Package cluster keeps the event log on three nodes, any one of which may die.
//
// Every node has its own whole file (package bolt). A JetStream stream with three
// replicas, LOG, is their common write-ahead log: one message is one group of
// commits. One node at a time, the sequencer, stages a group in a transaction of its
// file, publishes it, and commits the transaction once LOG has taken the message;
// only then are the commits answered. The others follow LOG and apply the same
// groups, byte for byte.
//
// # The rules, and why
//
// The slot. A group's number is its message's sequence in LOG, and a publication
// expects the number before to be LOG's last. So a slot is decided once, by LOG,
// whoever publishes: two sequencers at a time are slow and harmless. A slot is taken
// by a group if LOG says so in an acknowledgement with that number that is no
// duplicate, or if the feed shows the group's nonce there. Everything else, a wrong
// last sequence (10071) included, says nothing: a leader that was deposed counts
// proposals that may never be committed, and a message without an answer may be
// committed later. Then the same bytes are published for the same slot again, until
// the feed shows what took it. A nonce names exact bytes: what is staged anew gets a
// new one.
//
// One group in flight. A second one would be staged upon records that LOG may not
// take.
//
// Taking back. If another group took the slot, the staged one is rolled back, with what
// it left in memory, and the other one is applied. The callers get no error: the
// forwarder sends the commits again, and their ids, which every store recognises for
// some time whatever their streams did since, make that harmless. It would not be if
// ids were recognised only at the end of a stream: a lost answer would then become a
// conflict, or a second refund. After ten seconds the caller gets the error that the
// outcome is unknown.
//
// Reads never lie. A read may be answered by a node that has every group which was
// acknowledged before the read arrived, or shown by any file. Whoever acknowledges or shows
// a group has it in his file. So a node asks its peers, with one question for all reads that
// wait, which group their files may have shown, and the reads that came before it was sent go
// on when the own file has the greatest of these: no sync is waited for, and LOG is not
// touched. Every peer has to answer this very question: an answer to an older one says nothing
// about what was acknowledged after it, and one peer knows nothing of what the other one
// acknowledged. A file may also be an old copy, which lacks what was acknowledged from it. So
// a node answers only once its file has what the sequencer told it to have.
//
// If a peer is silent for 50 ms, as when it is down, the sequencer is asked. It cannot know
// the answer from its file, since it may have been deposed. It knows when a group is accepted
// that it first published after the question arrived: then nobody else's was in between. So
// questions ride on the next group; when none comes, a group without records, a barrier, is
// published for all that wait. A barrier under way serves no question that comes later:
// it may have been accepted long ago, with others behind it, and only the answer be
// late. If no group comes within 200 ms that a peer says it has, the sequencer alone is asked
// for a while. No clock and no lease is trusted.
//
// Refusals are reads. A conflict is true only if the file is LOG's newest state. So a
// group in which all commits were refused is published too, without records, before
// the refusals are answered.
//
// Taking over. Who leads is a matter of liveness alone: the node whose server leads LOG.
// A new sequencer first asks
// its peers which groups they have, and waits for one answer at least. If LOG ends
// before a file does, its own or a peer's, LOG has forgotten acknowledged groups, and
// the sequencer publishes them again from that file: from its own once LOG's last group
// is the one that the file has in its place, from a peer's if the group follows from
// its own file. Then it publishes a barrier, whose acceptance shows that it has LOG's
// end. Not covered is what is only in the file of a node that cannot be reached: if LOG
// goes on meanwhile, that node stops when it is back, and says which events it alone
// has.
//
// The end. LOG ends with a group that names the node whose file goes on alone. Each node
// notes that in its file and takes no part any more. Nothing can follow it, since a node
// publishes behind the last group that it has: that file has all that was answered.
//
// Beginning anew. If the servers have lost LOG, nothing that was answered is lost, and
// nobody makes another one by himself: the nodes wait until the operator has it made anew
// (package founding). It has the same id and goes on with the number of the last group that
// any member has, so it is a LOG that was trimmed and has forgotten its tail.
//
// A peer's word. What a peer says that it has is a claim: if nothing comes of it within
// two seconds, the peer is named and the sequencer goes on. Only LOG says that a node is
// behind. A group of a peer's file is taken only where LOG has one and does not bring it,
// and only a node whose file was compared with LOG since its start gives any. If it does
// not follow from the file, the peer is wrong, unless the other one says the same.
//
// Handing over. A sequencer that is to be stopped, or cannot do its work because its
// disk is full or its clock is off, ends what it has under way and has LOG elect one of
// its peers that can, The peer hears of that at once. Whatever comes
// meanwhile is sent again by the node that took it, so it waits for some 50 ms and
// nothing of it is refused. Ids do not run back: every node observes those in the log
// (bolt.Options.Newest), and those far ahead of the log and of the sequencer's clock are
// refused.
//
// Followers apply groups in the order of their numbers and skip none that has records:
// each group, also one without, says which position and record it follows. bolt checks
// that, every record's place in its stream, and claims. A group that stays missing for
// 200 ms is fetched from a peer's file, or had no records, if the next one follows from
// the file. If a group of LOG does not follow, the node stops: its file is of another
// history and is made anew from a peer's, never mended.
//
// Beginning. LOG begins behind the last event that its founder has, and every file has
// to have the same up to there. JetStream makes a stream
// only while all servers that shall keep it are up: the others are made before LOG
// (Config.Prepare), so that a node may be lost as soon as there is LOG.
//
// # The parts
//
// sequencer, follower and forwarder are state machines in one goroutine: node.step
// takes an event and returns effects, without clocks, goroutines or I/O. The
// simulation in the tests plays them against models of the file, of LOG's contract
// and of the network, with crashes, pauses, partitions, lost, late, repeated and
// reordered messages, clocks that jump, and a LOG that forgets. For each of the rules
// there is a flaw that breaks it, and the simulation has to notice. A failure prints
// its seed:
//
//	PAYLEDGER_SEED=17 go test ./eventstore/cluster -run TestSimulation
//
// Store drives the machine over a real JetStream: log.go has LOG, peers.go what nodes
// ask each other, package wire how that is written. It is an eventstore.Store, so that
// nobody who uses one knows of the cluster. LOG's metadata says what its groups follow
// from: the log's id, LOG's own, and the position and record that the log ended with; a
// file follows one LOG for ever. LOG is trimmed up to what all members have.
package cluster
