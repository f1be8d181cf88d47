package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/httpapi/conns"
)

// Listen opens the address that a flag names.
func Listen(ctx context.Context, flag, addr string) (net.Listener, error) {
	switch l, err := conns.Listen(ctx, addr); {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, cli.Errorf(cli.ExitAddress, "--%s %s: address already in use: choose another one, or port 0 for any free port", flag, addr)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, cli.Errorf(cli.ExitAddress, "--%s %s: not an address of this machine: choose one that is", flag, addr)
	case errors.As(err, new(*net.AddrError)): // its form is wrong
		return nil, cli.Errorf(cli.ExitUsage, "--%s %s: %w: want HOST:PORT", flag, addr, err)
	case err != nil:
		return nil, cli.Errorf(cli.ExitAddress, "--%s %s: %w: want HOST:PORT", flag, addr, err)
	default:
		return l, nil
	}
}

// OnLoopback puts an address without a host on loopback.
func OnLoopback(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

// Reachable is the address under which a client on this machine reaches a
// listener. For one that listens on all interfaces that is localhost.
func Reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// MaxAdminConnections are those to the admin socket, and to the admin listener.
const MaxAdminConnections = 32

// Server is an http.Server with a limit on everything that a client can make it
// wait for. Shutdown waits until it has ended.
type Server struct {
	name   string
	server *http.Server
	done   chan error
}

// Serve serves a listener until Shutdown.
func Serve(l net.Listener, h http.Handler, c conns.Config) (*Server, error) {
	bounded, err := conns.New(l, c)
	if err != nil {
		return nil, err
	}
	s := &Server{name: c.Name, done: make(chan error, 1), server: &http.Server{
		Handler:           h,
		ConnState:         bounded.State,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		// "OPTIONS *" gets an answer like any other.
		DisableGeneralOptionsHandler: true,
	}}
	go func() {
		err := s.server.Serve(bounded)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		s.done <- err
	}()
	return s, nil
}

// Shutdown lets requests in progress finish until ctx ends, then cuts them off.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = fmt.Errorf("%s listener: requests were cut off: %w", s.name, err)
	}
	return errors.Join(err, s.Close())
}

// Close cuts requests in progress off.
func (s *Server) Close() error { return errors.Join(s.server.Close(), <-s.done) }
