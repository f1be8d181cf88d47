// Package client makes the HTTP transport that connectors and webhooks call out with,
// and the HTTP client of connectors.
//
// Connecting takes 5 s at most and TLS 5 s more. Only HTTP/1.1 is spoken, so that a
// connection that hangs delays one call and not all. The head of an answer has 64 KiB
// at most; how much of a body is read is up to the caller, and nothing is unpacked.
//
// Providers and merchants are called at public addresses on port 443 or 8443 only,
// which is judged on the resolved address right before the connection is made, so that
// a wrong or foreign name server leads no call with a secret into the operator's
// network. Adapters are the operator's own, and may be anywhere.
//
// HTTPS_PROXY and its relatives in the environment are not used: a proxy would
// resolve names beyond that guard.
package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	"code.dny.dev/ssrf"
)

// ConnectTime bounds the way to a connection, from the name to the last of its
// addresses, and once more the TLS handshake on it.
const ConnectTime = 5 * time.Second

// The limits of a client.
const (
	callTime = 15 * time.Second
	idleTime = 30 * time.Second
	maxConns = 64
	maxHead  = 64 << 10
)

// Config is what transports differ in.
type Config struct {
	// AllowPrivate permits every address and port.
	AllowPrivate bool

	// Resolver and RootCAs replace those of the system. Default of Resolver: Go's
	// own, because with the C library's each query that is not answered holds a
	// thread.
	Resolver *net.Resolver
	RootCAs  *x509.CertPool
}

// Ports are those that may be called unless AllowPrivate.
func Ports() []uint16 { return []uint16{443, 8443} }

// Refused reports whether an address may not be called.
func Refused(err error) bool {
	return errors.Is(err, ssrf.ErrProhibitedIP) || errors.Is(err, ssrf.ErrProhibitedPort) ||
		errors.Is(err, ssrf.ErrProhibitedNetwork) || errors.Is(err, ssrf.ErrInvalidHostPort)
}

// Transport makes a transport, and the dialer that it connects with.
func Transport(c Config) (*http.Transport, *net.Dialer) {
	dialer := &net.Dialer{Timeout: ConnectTime, Resolver: c.Resolver}
	if c.Resolver == nil {
		dialer.Resolver = &net.Resolver{PreferGo: true}
	}
	if !c.AllowPrivate {
		dialer.Control = ssrf.New(ssrf.WithPorts(Ports()...)).Safe
	}
	var http1 http.Protocols
	http1.SetHTTP1(true)
	return &http.Transport{
		Protocols:              &http1,
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs, NextProtos: []string{"http/1.1"}},
		TLSHandshakeTimeout:    ConnectTime,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    maxConns / 4,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHead,
	}, dialer
}

// New makes the client that a connector calls its provider or adapter with. A call takes 15 s with
// its answer's body, and a redirect is an answer like any other. No more than 64 connections to a
// server are open at a time; further calls wait. Connections that it reuses are closed when they
// are idle.
func New(c Config) *http.Client {
	transport, _ := Transport(c)
	transport.MaxConnsPerHost = maxConns
	return &http.Client{
		Timeout:       callTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     transport,
	}
}
