// Package notifier carries the event log to NATS JetStream and lets what
// happens there act on payments.
//
// The relay copies the log into the JetStream stream EVENTS, where a
// message's sequence is its event's position, and keeps no cursor: the copy
// itself says how far it got. Everything in an embedded JetStream can
// therefore be deleted at any time; it grows again from the log.
//
// The workers follow EVENTS with one consumer that keeps no state either.
// They assign routes and tell acquirers; payments whose time is over expire
// by the clock. The fan-out enqueues what webhook endpoints are to be told of,
// each event once and in order; package delivery sends it. When it is behind
// it reads EVENTS by itself, so that new payments never wait for it. The
// enforcer takes the provider's word from the JetStream stream SIGNALS and
// answers once what it led to is durable.
//
// All data in JetStream is derived from the log or sent again until it is
// answered. The relay compares EVENTS with the log and makes it anew where it
// differs. The watchdog notices work that waits without progress, and repairs the
// embedded JetStream: it restarts it, and in the end makes its directory anew.
//
// None of them holds the ledger up: while JetStream is away payments are
// created as ever, and what was to follow from them follows when it is back.
// State changes only through commands, so that the rules stand once, in
// package domain.
//
// Events go to an embedded server and come back from it over connections that
// speak only as much of its protocol as that takes (wire); everything else, and
// an external server, goes through the NATS client.
//
// asyncapi.yaml describes the subjects, headers and messages.
package notifier
