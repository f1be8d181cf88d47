// Package conns limits the connections that clients can hold.
//
// A Listener lets in at most Max connections, and at most PerAddress of one
// network address. A client must read: a connection ends when a write makes no
// progress for Patience; as long as there is progress an answer may take any
// time. On Linux the kernel also ends a connection whose client leaves even a
// few bytes, such as those of an event stream, unread for Patience. Slow headers
// and bodies end by the http.Server's own time limits.
//
// A full Listener does not wait: it closes the least useful connection to admit
// the new one. That is the one that has waited longest for its client to
// send a request or, if there is none, that has been stalled longest while a
// body is sent or an answer is not read. A connection whose request is at work
// is never closed; when all are, the new one is refused.
//
// An address is an IPv4 address, or the /64 in which an IPv6 client can choose
// its own. Addresses of this machine and of private networks may be proxies
// that bring many clients, so PerAddress does not apply to them.
package conns
