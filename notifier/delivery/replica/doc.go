// Package replica keeps the lane file the same on the nodes of a cluster.
//
// Each node has a whole lane file of its own. One node at a time leads: it alone
// sends notifications and changes the file. Each change of the file is one entry (see
// store.Share). It is published to a JetStream stream with three replicas, LANES,
// before the file has it; the others write the same rows. So a mark that was raised
// for an attempt is on a majority of machines before the attempt is made, and no node
// that leads later begins anything below it.
//
// # Who leads
//
// The caller decides who is to lead; that is a matter of liveness alone. Whoever
// begins to lead writes all entries of LANES into its file and then publishes one
// without rows, which expects to be the next. LANES takes one message for each
// sequence, so from then on whatever the node before publishes is refused, and it
// ends. Requests that it had under way are its own: what was begun and has no end in
// the file is left alone for some time (see delivery.Config.Lead).
//
// # Messages
//
// An entry is one message or, if it is long, several: those without the last one are
// dropped. The entry's number is the sequence of its last message. A message, numbers
// big-endian:
//
//	offset  bytes
//	0       4      CRC-32C of the rest
//	4       1      format, 1
//	5       1      1: the first of its entry; 2: the last; 3: both
//	6       8      random, of the one who leads: what it published is known again
//	14      8      the first bytes of the SHA-256 of the message before
//	22      …      bytes of the entry
//
// # What LANES keeps
//
// LANES is a channel and no archive: the oldest messages go. A file that is further
// behind, or that has entries which LANES has forgotten and the node that leads does
// not have, is replaced by a copy of that node's. If LANES ends before the file of the
// node that leads, it begins anew behind it. If no node has a file that LANES follows
// from, as when the one that made LANES is lost at once, LANES begins anew with a new
// file, which knows nothing of what was sent (see delivery.Config.Lead).
package replica
