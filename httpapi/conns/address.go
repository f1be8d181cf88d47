package conns

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// network is the name under which connections and requests from an address are
// counted.
func network(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	p, _ := addr.Prefix(64) // an IPv6 address has one
	return p.String()
}

// ofRemote reads an address with or without a port. If the text is no address,
// as for a Unix socket, addr is zero and name is the text.
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

// mayBeProxy reports whether an address belongs to this machine or to a private
// network. Proxies there are trusted.
func mayBeProxy(addr netip.Addr) bool { return addr.IsLoopback() || addr.IsPrivate() }

// Visitor is the network under which a client is counted whose key is not known: that at the
// other end of the connection or, if it may be a proxy's, the one that the proxy names. Only
// the last address of X-Forwarded-For counts: the nearest proxy wrote it, while
// a client can forge the others.
func Visitor(r *http.Request) string {
	_, name := visitor(r)
	return name
}

// Client is the address of which Visitor is the network.
func Client(r *http.Request) string {
	addr, name := visitor(r)
	if addr.IsValid() {
		return addr.String()
	}
	return name
}

// Public is Visitor, empty where that is this machine or a private network.
func Public(r *http.Request) string {
	if addr, name := visitor(r); addr.IsValid() && !mayBeProxy(addr) {
		return name
	}
	return ""
}

func visitor(r *http.Request) (addr netip.Addr, name string) {
	near, name := ofRemote(r.RemoteAddr)
	lines := r.Header.Values("X-Forwarded-For")
	if len(lines) == 0 || !mayBeProxy(near) {
		return near, name
	}
	last := lines[len(lines)-1]
	if i := strings.LastIndexByte(last, ','); i >= 0 {
		last = last[i+1:]
	}
	if far, named := ofRemote(strings.TrimSpace(last)); far.IsValid() {
		return far, named
	}
	return near, name
}
