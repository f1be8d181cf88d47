// Package bench measures a payledger from outside, over HTTP on loopback, and
// beside it, in the same run, programs that do less: see baseline. A figure
// alone says as much about the machine and its neighbours as about the
// program; the ratio to a baseline that was measured a moment before and after
// says something about the program.
//
// Everything under load is a process of its own, so that its CPU time is
// counted apart from the load's. The service is the program as it is run, with
// everything switched on: keys, idempotency keys, the relay, routing by the
// sandbox, projections and its log records in a file; only rate limits are
// off. Runs of the service and the baselines take turns; figures are medians
// over the rounds, ratios medians of the rounds' ratios.
//
// In a closed loop each connection sends its next request when it has the
// answer to the last. In an open loop requests are due at fixed times and
// their latency counts from then, however late they could be sent, so that a
// server that stalls is charged for everyone who would have waited.
//
// A rate counts what was answered within the time. What the service was still
// to do for it afterwards, until the last payment was awaiting_payment, is
// measured too and its CPU time counts.
package bench
