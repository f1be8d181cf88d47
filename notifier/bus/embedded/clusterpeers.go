package embedded

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
)

// Peers is a listener for the other nodes' connections that are not of their NATS servers, to
// the same address: those that name Cluster.PeerProtocol. They have shown a certificate by the
// first Read that succeeds. Who accepts none of them has them wait.
func (s *Server) Peers() net.Listener {
	l := &peerListener{front: s.routes, conf: s.config.Cluster.TLS, closed: make(chan struct{})}
	l.end = sync.OnceFunc(func() { close(l.closed) })
	return l
}

type peerListener struct {
	*front
	conf   *tls.Config
	closed chan struct{}
	end    func()
}

// Accept implements net.Listener.
func (l *peerListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.peers:
		conf := l.conf.Clone()
		conf.VerifyConnection = func(tls.ConnectionState) error {
			c.leaves()
			return nil
		}
		return tls.Server(c, conf), nil
	case <-l.ended:
	case <-l.closed:
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l *peerListener) Close() error {
	l.end()
	return nil
}

// Addr implements net.Listener.
func (l *peerListener) Addr() net.Addr { return l.listener.Addr() }

// peerConn is a connection of whose bytes some were read.
type peerConn struct {
	*admitted
	read []byte
}

func (c *peerConn) Read(b []byte) (int, error) {
	if len(c.read) > 0 {
		n := copy(b, c.read)
		c.read = c.read[n:]
		return n, nil
	}
	return c.admitted.Read(b)
}

// hand gives a connection whose handshake names the peers' protocol to whom Peers accepts it. Of one
// that does not it answers the handshake's bytes.
func (f *front) hand(client *admitted) (hello []byte, handed bool) {
	r := &recorder{Conn: client}
	peer := false
	_, _ = tls.Server(r, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		peer = slices.Contains(hello.SupportedProtos, f.peerProtocol)
		return nil, errSeen
	}}).Read(nil) // which does the handshake; the listener closes who does not speak
	if !peer {
		return r.read, false
	}
	c := &peerConn{client, r.read}
	select {
	case f.peers <- c:
	case <-f.ended:
		_ = c.Close()
	}
	return nil, true
}

var errSeen = errors.New("seen")

// recorder keeps what is read and writes nothing.
type recorder struct {
	net.Conn
	read []byte
}

func (r *recorder) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	r.read = append(r.read, b[:n]...)
	return n, err
}

func (r *recorder) Write(b []byte) (int, error) { return len(b), nil }
