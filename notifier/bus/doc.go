// Package bus is NATS: the server embedded in this process or the connection to
// an external one, its accounts and credentials, the JetStream streams, the
// subjects, and the form of events, signals and checkpoints as messages.
//
// Publisher and Reader are the two ways of an event: into EVENTS and out of it.
// Both use a link, which is a wire to the embedded server and the NATS client's
// to an external one. All else goes through the NATS client.
//
// Everything in an embedded JetStream is derived from the log or sent again, so
// the server syncs nothing by itself, and a directory that it cannot read is
// renamed and made anew.
package bus
