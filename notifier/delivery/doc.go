// Package delivery decides when merchants are notified, and in which order:
// no merchant ever sees a status move backward, also when events are resent, and after
// crashes and power cuts.
//
// # Lanes
//
// A lane is one endpoint's notifications of one payment. Its rules:
//
//  1. At most one request is in flight. The next one begins when the one
//     before is settled: delivered, superseded, given up, parked, held or
//     cancelled.
//  2. Before each try, an intermediate event that a later one follows
//     is superseded. Final ones never are.
//  3. The highest sequence an attempt was begun for is in the event log, synced,
//     before the attempt, and nothing below it is begun any more.
//  4. Only the newest event of a lane is sent again on request, or an outcome
//     that is the highest begun, and either only while nothing later is queued.
//
// The type deliveries.Lane holds the rules. Lanes are a fold of the log (Rows):
// payments' events are queued where they are folded, and what was sent is read
// from the event deliveries.noted. So whoever has the log has the lanes.
//
// # The sender
//
// Of all processes with the log one sends, in Lanes.Run. What it decides within
// some 10 ms is one event: attempts that begin, how others ended, what left the
// queue. It appends the event after the last one of a sender, waits until the
// fold has it, and makes the requests. If another sender has appended meanwhile,
// the append fails and Run ends; so two never send at the same time, but for
// requests under way, which the next sender waits for (see Config.Shared).
// An attempt whose end was not recorded when the program ended is made again:
// the same sequence twice, which receivers expect. Whoever is asked to send
// something, the sender or not, appends an event that queues it.
//
// # Endpoints
//
// Each endpoint has a queue, a goroutine, a limit of requests at the same
// time, a token bucket and a circuit breaker of its own. All requests under way
// together are bounded too, because each takes a socket; some of these slots are
// always left to endpoints that answer soon (see slots). While the breaker is
// open, deliveries wait and use up no tries; only requested ones are sent (see
// requested), and a change of the endpoint lets one attempt through that costs no
// try. The lanes that are due first are in memory too (see window).
//
// # Time
//
// Lanes wait by a clock of the sender's that is never set back (see clock). A
// restart does not change since when an endpoint fails. Time in which no process sent
// does not count towards the days after which it is disabled.
//
// # What is kept where
//
// Bodies are not stored: they are rendered from the event log at each try, to the
// same bytes. The answers to attempts are kept in the memory of the sender alone
// (see answers): another node, or the next process, lists attempts without them.
package delivery
