// Package delivery decides when merchants are notified, and in which order:
// no merchant ever sees a status move backward, whatever is resent, however
// often the program crashes and wherever the power is cut.
//
// # Lanes
//
// A lane is one endpoint's notifications of one payment. Its rules:
//
//  1. At most one request is in flight. The next one begins when the one
//     before is settled: delivered, superseded, given up, parked, held or
//     cancelled.
//  2. Before each try, an intermediate event that has a later one behind it
//     is superseded. Final ones never are.
//  3. The highest sequence an attempt was begun for is synced to the disk
//     before the attempt, and nothing below it is begun any more.
//  4. Only the newest event of a lane is sent again on request, or an outcome
//     that is the highest begun, and either only while nothing later is in line.
//
// The type store.Lane holds the rules; the writer, one goroutine, is the only one
// that applies them, in transactions of the lane file. Attempts begin in one
// way, tx.begin: in the transaction that enqueues their events where the
// endpoint has room, which saves a second sync, and otherwise in one that the
// endpoint's goroutine asks for. The requests are made once it is synced. An attempt
// whose end was not recorded when the program ended is made again: the same
// sequence twice, which receivers expect.
//
// # Endpoints
//
// Each endpoint has a queue, a goroutine, a limit of requests at the same
// time, a token bucket and a circuit breaker of its own. All requests under way
// together are bounded too, because each takes a socket; some of these slots are
// always left to endpoints that answer soon (see slots). An endpoint that does
// not answer holds a few until its breaker opens, and one from then on. While the
// breaker is open, deliveries wait and use up no tries; only requested ones are
// sent (see requested), and a change of the endpoint lets one attempt through that
// costs no try. Waiting lanes are in the file; those that are due
// first are in memory too (see window).
//
// # Time
//
// Lanes wait by a clock of their own that is never set back (see clock). A
// restart does not change since when an endpoint fails. Time in which no program
// ran does not count towards the days after which it is disabled.
//
// # Bodies
//
// Bodies are not stored: they are rendered from the event log at each try, to
// the same bytes, by the version of the form that the delivery was made with.
package delivery
