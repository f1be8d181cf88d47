package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// proxied is the address of a client, and the line of the PROXY protocol with it.
func proxied(c net.Conn) (known, header string) {
	remote, err1 := unmapped(c.RemoteAddr())
	local, err2 := unmapped(c.LocalAddr())
	if errors.Join(err1, err2) != nil {
		return "", ""
	}
	kind := "TCP6"
	if remote.Addr().Is4() {
		kind = "TCP4"
	}
	return remote.String(), fmt.Sprintf("PROXY %s %s %s %d %d\r\n", kind, remote.Addr(), local.Addr(), remote.Port(), local.Port())
}

// unmapped is an address without a zone, as IPv4 if it is mapped.
func unmapped(a net.Addr) (netip.AddrPort, error) {
	addr, err := netip.ParseAddrPort(a.String())
	return netip.AddrPortFrom(addr.Addr().Unmap().WithZone(""), addr.Port()), err
}

// askEvery is how often the server is asked which clients have signed in, for those to
// whom it does not say so.
const askEvery = 100 * time.Millisecond

// watch asks until the end, while clients wait.
func (f *front) watch() {
	every := time.NewTicker(askEvery)
	defer every.Stop()
	for {
		select {
		case <-f.ended:
			return
		case <-every.C:
			if f.listener.waits() > 0 {
				f.ask()
			}
		}
	}
}

// ask asks the server which clients have signed in.
func (f *front) ask() {
	s := f.server.Load()
	if s == nil {
		return
	}
	clients, err := s.Connz(&natsserver.ConnzOptions{Username: true, Limit: maxConnections})
	if err != nil {
		return
	}
	for _, c := range clients.Conns {
		if c.Account != "" { // it is in none before
			f.authenticated(net.JoinHostPort(c.IP, strconv.Itoa(c.Port)))
		}
	}
}

// authenticated is called when the client with this address has authenticated.
func (f *front) authenticated(known string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c := f.open[known]; c != nil {
		c.leaves()
	}
}

// verifying is the server's TLS configuration that reports which clients have authenticated with a
// certificate.
func (f *front) verifying(conf *tls.Config) *tls.Config {
	all := conf.Clone()
	all.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		one := conf.Clone()
		one.VerifyConnection = func(tls.ConnectionState) error {
			f.authenticated(hello.Conn.RemoteAddr().String())
			return nil
		}
		return one, nil
	}
	return all
}
