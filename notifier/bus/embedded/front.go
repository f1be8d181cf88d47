package embedded

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"
)

// front takes the connections of a public address and passes them on to a listener of the NATS
// server on loopback. That server only bounds the number of all connections, whether they have
// signed in or not and from any address.
type front struct {
	listener *admission
	routes   bool                              // it is for other servers, not for clients
	server   atomic.Pointer[natsserver.Server] // that runs now; nil: none
	ended    chan struct{}
	cut      context.Context // its end closes both ends of all connections, also of later ones
	cutOff   context.CancelFunc
	all      sync.WaitGroup

	peers        chan *peerConn // see Peers
	peerProtocol string

	mu   sync.Mutex
	open map[string]*admitted // by the address under which the server knows it
}

const (
	passedAtOnce = 16 << 10               // bytes of one direction
	passTime     = 10 * time.Second       // in which the other end has to take them
	drainTime    = 250 * time.Millisecond // for what is under way at the end
)

// newFront listens.
func newFront(listen string, routes bool, peerProtocol string, log zerolog.Logger) (*front, error) {
	if _, port, err := net.SplitHostPort(listen); err != nil {
		return nil, fmt.Errorf("the address to listen on: %w: want HOST:PORT", err)
	} else if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("the address to listen on: port %q: want a number up to 65535", port)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	name := "nats"
	if routes {
		name = "node"
	}
	f := &front{
		listener: newAdmission(l, name, log), routes: routes,
		ended: make(chan struct{}), open: make(map[string]*admitted), peers: make(chan *peerConn), peerProtocol: peerProtocol,
	}
	f.cut, f.cutOff = context.WithCancel(context.Background()) //nolint:forbidigo,gosec // no caller: it lasts as long as the front, and close ends it
	f.all.Go(f.accept)
	if !routes {
		f.all.Go(f.watch)
	}
	return f, nil
}

// stop takes no more connections; those that are open stay. It may be called twice, as
// on no front.
func (f *front) stop() {
	if f != nil {
		_ = f.listener.Close()
	}
}

// close ends all connections, after the server's end.
func (f *front) close() {
	if f == nil {
		return
	}
	f.stop()
	close(f.ended)
	defer time.AfterFunc(drainTime, f.cutOff).Stop()
	f.all.Wait()
}

func (f *front) accept() {
	for {
		c, err := f.listener.accept()
		if err != nil {
			return
		}
		f.all.Go(func() { f.serve(c) })
	}
}

// serve passes bytes on in both directions until the server closes the connection, as it
// also does when the client has closed its own.
func (f *front) serve(client *admitted) {
	var hello []byte
	if f.routes {
		var handed bool
		if hello, handed = f.hand(client); handed {
			return
		}
	}
	defer func() { _ = client.Close() }()
	server, err := f.dial()
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	// The server may have forgotten the connection: one that it accepts while it ends.
	defer context.AfterFunc(f.cut, func() {
		_ = client.Close()
		_ = server.Close()
	})()
	known := server.LocalAddr().String()
	if !f.routes {
		var header string
		if known, header = proxied(client); header != "" {
			_, _ = server.Write([]byte(header)) // if it fails, so do all others
		}
	} else if _, err := server.Write(hello); err != nil {
		return
	}
	f.mu.Lock()
	f.open[known] = client
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open[known] == client { // the address may be another connection's by now
			delete(f.open, known)
		}
	}()
	var answers sync.WaitGroup
	answers.Go(func() {
		f.pass(client, server, client)
		_ = client.Close() // ends the other direction
	})
	f.pass(server, client, nil)
	_ = server.CloseWrite()
	answers.Wait()
}

func (f *front) dial() (*net.TCPConn, error) {
	s := f.server.Load()
	if s == nil {
		return nil, ErrStarting
	}
	to := s.ClusterAddr()
	if !f.routes {
		to, _ = s.Addr().(*net.TCPAddr)
	}
	if to == nil {
		return nil, ErrClosed
	}
	return net.DialTCP("tcp", nil, to)
}

// pass passes bytes on until either end is closed. answered is the client that they are
// answers to, nil if they are none: any answer but the server's greeting may be the one to
// a client that has signed in, and before the client reads it no longer waits.
func (f *front) pass(to, from net.Conn, answered *admitted) {
	b := make([]byte, passedAtOnce)
	for greeted := false; ; {
		n, err := from.Read(b)
		if n > 0 {
			if greeted && answered != nil && answered.waits.Load() && !f.routes {
				f.ask()
			}
			greeted = true
			_ = to.SetWriteDeadline(time.Now().Add(passTime))
			if _, err := to.Write(b[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
