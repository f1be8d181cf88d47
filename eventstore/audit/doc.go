// Package audit checks an event log without trust in the program that wrote it
// or in the disk that holds it.
//
// Check reads the log once, in order, and checks for every record:
//
//   - it can be read: the store's own checksum, or the exported line;
//   - its position: from 1, without gaps or repetitions;
//   - it follows the record before it in its stream: Prev and Sequence;
//   - its body is an event this program knows, upcast if it is old, and belongs
//     to this record: id, stream, sequence and time;
//   - its event id is new, and its time is at most a day before that of an earlier
//     event. The time is when the command began, so times can run back by as long
//     as commands run in parallel;
//   - its idempotency key is new, and the same in the record and in the event;
//   - the money of its provider's reference is booked for the first time
//     (references of events older than this rule are not checked);
//   - the rules of the domain lead to the event from the state of the stream
//     before it: the command that must have led to it is decided again, and the
//     result must be this event;
//   - a merchant was paid no more than it was owed, by the books as of the position that the payout
//     names;
//   - the Merkle tree (RFC 6962) over all bodies has the root of every given
//     signed checkpoint.
//
// Each check detects different faults. The record's checksum detects an event
// that was altered with care, so that it still decodes and obeys the rules. If
// the checksum was replaced too, only a checkpoint detects it, and only as a
// range of positions. A log whose end was removed breaks no rule: only a
// checkpoint, or projections that contain the removed events, detect it.
//
// # Memory
//
// For each payment, Check keeps the state that later events are checked against, encoded, in a map that adds about 100
// bytes: 40 bytes for an unpaid one, 120 to 180 for a paid one. Some 30,000 recently used ones are kept decoded.
// Idempotency keys of 30 to 45 days take about 60 bytes each. All references are kept, at about 50 bytes each. A
// million event ids are kept to find duplicates; an older duplicate is found by its time if that is more than a day
// back, else not. Projects are kept whole, and so are payouts, with the last 8,000 changes at most of what each merchant
// is owed, of 24 bytes each.
package audit
