// Package salvage puts a log together again from what can still be read of its
// copies: a damaged file, exports, the JetStream stream EVENTS.
//
// A Source is one copy: a list of places at which a record may be read, by
// position. Plan reads all sources side by side, position by position, and
// decides which bytes stand at each. A body holds all of a record but its
// position: the id, the stream, the sequence and the claim; links and heads are
// derived. So what a Source gives is judged by its body, and a copy whose other
// members contradict it is put aside.
//
// What may be taken for the log:
//
//   - what a signed checkpoint covers, when the Merkle tree over all events up to
//     its size has its root: proved;
//   - behind that, what one copy vouches for: a record on a page that the log's
//     file uses, with its checksum, or an event in EVENTS, which gets durable
//     ones only; or what two exports, or an export and a record, say alike;
//   - all else only if somebody says so (Options.Unproved): a line of an export
//     has no checksum, and a record on a page out of use may be of a commit that
//     a crash undid.
//
// Where copies differ at a position, the one with which the tree has the
// checkpoint's root wins. To find it the tree is kept with the choice open in
// its leaves: all the rest of it is hashed once. Where no checkpoint tells, the
// position is refused.
//
// A log has no gaps, so it can be written up to the first position that is
// missing or refused. What is readable behind it goes to a rest, as exported
// lines, every copy of it that differs.
package salvage
