// Package audit checks an event log as somebody would who trusts neither the
// program that wrote it nor the disk it lies on.
//
// Check reads the log once, in order, and asks of every record:
//
//   - does it read at all: the store's own checksum, or the exported line;
//   - is it where it should be: positions from 1 without gaps or repetitions;
//   - does it follow the record before it in its stream: Prev and Sequence;
//   - is its body an event this program knows, upcast where it is old, and that
//     of this record: id, stream, sequence and time;
//   - is its event id new, and its time not more than a day before that of an
//     event before it: times are those at which commands began, so they run back
//     by as long as commands run beside each other;
//   - is its idempotency key new, and the same in the record and in the event;
//   - is the money of its provider's reference booked here for the first time
//     (references of events from before this rule are not looked at);
//   - is the event one that the rules of the domain lead to in the state of
//     the stream before it: the command it must have come from is decided
//     again, and the answer has to be this very event;
//   - does the Merkle tree (RFC 6962) over all bodies have the root that a
//     signed checkpoint says, for every checkpoint that is given.
//
// What each of these can see differs. An event that was altered with care, so
// that it still decodes and obeys the rules, shows in the record's checksum;
// if that was made anew too, it shows only against a checkpoint, and only as a
// range of positions. Removing the end of the log breaks no rule at all and
// shows only against a checkpoint, or against projections that have seen it.
//
// # Memory
//
// Check keeps, for each payment, what later events are judged by: 60 to 80
// bytes in a map that adds about as much; some 30 thousand that changed lately
// are kept unpacked. Idempotency keys of 30 to 45 days
// take about 60 bytes each, references, all of them, about 50. A million event ids are kept to find one that
// comes twice; one that returns later than that shows as a time that lies
// behind if a day has passed, else not. Projects are kept whole.
package audit
