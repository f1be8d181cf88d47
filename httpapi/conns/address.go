package conns

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// network is what connections and requests from an address are counted by.
func network(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, err := addr.Prefix(64)
	if err != nil {
		return addr.String()
	}
	return p.String()
}

// ofRemote reads an address with or without a port. Where it is none, as of a
// Unix socket, name is all of it.
func ofRemote(remote string) (addr netip.Addr, name string) {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	addr, err = netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, host
	}
	return addr.Unmap(), network(addr)
}

// mayBeProxy reports whether an address is of this machine or of a private
// network, where proxies are trusted.
func mayBeProxy(addr netip.Addr) bool { return addr.IsLoopback() || addr.IsPrivate() }

// Peer is what a request is counted by when only its connection is believed.
func Peer(r *http.Request) string {
	_, name := ofRemote(r.RemoteAddr)
	return name
}

// Visitor is what people without a key are counted by: Peer or, when the
// request comes from where a proxy may be, the network that the proxy says it
// came from. Only the last address of X-Forwarded-For counts: the nearest proxy
// wrote it, whoever wrote the others.
func Visitor(r *http.Request) string {
	near, name := ofRemote(r.RemoteAddr)
	lines := r.Header.Values("X-Forwarded-For")
	if len(lines) == 0 || !mayBeProxy(near) {
		return name
	}
	last := lines[len(lines)-1]
	if i := strings.LastIndexByte(last, ','); i >= 0 {
		last = last[i+1:]
	}
	far, err := netip.ParseAddr(strings.TrimSpace(last))
	if err != nil {
		return name
	}
	return network(far)
}
