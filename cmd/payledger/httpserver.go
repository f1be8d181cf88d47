package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"payledger/httpapi/conns"
)

// listenTCP opens the address that a flag names.
func listenTCP(ctx context.Context, flag, addr string) (net.Listener, error) {
	l, err := conns.Listen(ctx, addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, exitWith(exitAddress, "--%s %s: address already in use: choose another one, or port 0 for any free port", flag, addr)
	}
	if err != nil {
		return nil, exitWith(exitAddress, "--%s %s: %w: want HOST:PORT", flag, addr, err)
	}
	return l, nil
}

// onLoopback puts an address without a host on loopback.
func onLoopback(addr string) string {
	if strings.HasPrefix(addr, ":") {
		return "127.0.0.1" + addr
	}
	return addr
}

// reachable is the address of a listener as a client on this machine writes
// it: one that listens on all interfaces has no address of its own.
func reachable(addr net.Addr) string {
	if tcp, ok := addr.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort("localhost", strconv.Itoa(tcp.Port))
	}
	return addr.String()
}

// httpServer is an http.Server with limits on everything a client can make
// it wait for, and with an owner that waits for it.
type httpServer struct {
	name   string
	server *http.Server
	done   chan error
}

func serveHTTP(l net.Listener, h http.Handler, c conns.Config) (*httpServer, error) {
	bounded, err := conns.New(l, c)
	if err != nil {
		return nil, err
	}
	s := &httpServer{name: c.Name, done: make(chan error, 1), server: &http.Server{
		Handler:           h,
		ConnState:         bounded.State,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		// "OPTIONS *" gets an answer like any other.
		DisableGeneralOptionsHandler: true,
	}}
	go func() { s.done <- s.server.Serve(bounded) }()
	return s, nil
}

// shutdown lets requests under way finish until ctx ends, then cuts them off.
func (s *httpServer) shutdown(ctx context.Context) error {
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("%s listener: requests were cut off: %w", s.name, err), s.server.Close())
	}
	return errors.Join(err, ignoreClosed(<-s.done))
}

// operatorHandler serves metrics and profiles.
func operatorHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}
