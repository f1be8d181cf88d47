// Package conns bounds what clients can take by holding connections.
//
// A Listener lets in at most Max connections, and at most PerAddress of one
// network address. A client must read: a write that makes no progress for the
// time limit ends the connection, however long the answer is; where the kernel
// can do so (Linux), it also ends a connection whose client leaves a few bytes
// unread that long, as of an event stream. Slow headers and bodies are ended by
// the http.Server's own time limits.
//
// A full Listener does not wait: the connection that can best be spared gives
// way to the new one. That is the one that has waited longest for its client to
// send a request or, if there is none, that has been stalled longest while a
// body is sent or an answer is not read. A connection whose request is at work
// is never closed; when all are, the new one is refused.
//
// Addresses count as elsewhere: an IPv4 address, or the /64 an IPv6 client can
// choose from. Addresses of this machine and of private networks may be proxies
// that bring many clients, so PerAddress does not apply to them.
package conns
