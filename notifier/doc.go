// Package notifier is what goes out of the process and comes back: events and signals over NATS
// JetStream, calls of providers, notifications, and what follows from the log by itself. Its packages:
//
//   - bus: NATS itself, embedded or external, its subjects and messages.
//   - worker: assigns routes to payments that wait for one, expires payments by the clock,
//     matches lines of settlement reports with outcomes that come later, and erases old details.
//     It works from the views of the log and keeps no state.
//   - collect: makes attempts to pay, refunds and returns at the providers, follows them to
//     their end, and signals what became of them.
//   - connector: the providers that run in this process.
//   - signals: takes the providers' outcomes from the JetStream stream SIGNALS,
//     and answers once what an outcome led to is durable.
//   - delivery and webhook: send what the views have queued for webhook endpoints.
//   - health: how these rooms say that they work, and try again.
//
// The Relay in this package copies the log into the JetStream stream EVENTS, where a message's
// sequence is its event's position. It keeps no cursor: the copy itself says how far it got.
//
// The Watchdog notices work that waits without progress, and repairs the embedded
// JetStream: it restarts it, and in the end recreates its directory. That loses nothing: all data
// in JetStream is derived from the log, or is sent again until it is answered.
//
// While JetStream is away payments are created as usual; outcomes and subscribers wait until it is back.
// State changes only through commands, so that the rules are only in package domain.
//
// asyncapi.yaml describes the subjects, headers and messages.
package notifier
