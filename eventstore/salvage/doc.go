// Package salvage rebuilds a log from the readable parts of its copies: a damaged
// file, exports, the JetStream stream EVENTS.
//
// A Source is one copy: a list of places where records can be read, by position.
// MakePlan reads all sources in parallel, position by position, and decides which
// record to take at each. The body contains all of a record except its position:
// the id, the stream, the sequence and the claim; links and heads are derived. So
// a record is identified by its body, and a copy with other members that
// contradict its body is not used.
//
// These events are taken for the log:
//
//   - proved: events covered by a signed checkpoint, if the Merkle tree over all
//     events up to its size has its root;
//   - after that, events with a sufficient source: a record on a page that the
//     log's file uses, with its checksum; an event in EVENTS, which receives only
//     durable ones; or the same event in two exports, or in an export and a record;
//   - any other event only with Options.Unproved: a line of an export has no
//     checksum, and a record on an unused page may be of a commit that a crash
//     undid.
//
// If copies differ at a position, the copy is taken with which the tree has the
// checkpoint's root. To find it, the tree keeps all candidates in the leaf; the
// rest of the tree is hashed only once. Without a checkpoint to decide, the
// position is refused.
//
// A log has no gaps, so it is written up to the position before the first missing
// or refused one. The readable events after that go to the rest, a file of
// exported lines with every copy that differs.
package salvage
