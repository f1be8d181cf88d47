// Package conns limits the connections that clients can hold.
//
// A Listener lets in at most Max connections, and at most PerAddress of one
// network address. A client must read: it has Patience to take each few KiB of an
// answer, which may take any time in all. On Linux the kernel also ends a connection
// whose client leaves even a few bytes, such as those of an event stream, unread for
// Patience. Slow headers and bodies end by the http.Server's own time limits.
//
// A full Listener does not wait: it closes the connection whose client it has waited for
// longest to admit the new one, be it for a request, for more of a body or to take more
// of an answer. A connection whose request is at work is never closed; when all are, the
// new one is refused.
//
// An address is an IPv4 address, or the /64 in which an IPv6 client can choose
// its own. Addresses of this machine and of private networks may be proxies
// that bring many clients, so PerAddress does not apply to them.
package conns
