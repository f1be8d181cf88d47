// Package client makes the HTTP client that a connector calls its provider or
// adapter with.
//
// Connecting takes 5 s at most, TLS 5 s more, and a call with its answer's body
// 15 s. A redirect is an answer like any other. No more than 64 connections to a
// server are open at a time, further calls wait; the head of an answer has 64 KiB
// at most. How much of a body is read is up to the connector (see
// connector.MaxAnswer); nothing is unpacked.
//
// Providers are called at public addresses on port 443 or 8443 only, which is
// judged on the resolved address right before the connection is made, so that a
// wrong or foreign name server leads no call with a secret into the operator's
// network. Adapters are the operator's own, and may be anywhere.
//
// HTTPS_PROXY and its relatives in the environment are not used: a proxy would
// resolve names beyond that guard.
package client

import (
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"code.dny.dev/ssrf"
)

// The limits of a client.
const (
	connectTime = 5 * time.Second
	callTime    = 15 * time.Second
	idleTime    = 30 * time.Second
	maxConns    = 64
	maxHead     = 64 << 10
)

// Config is what clients differ in.
type Config struct {
	// AllowPrivate permits every address and port.
	AllowPrivate bool
}

// New makes a client. Connections that it keeps for further calls end by
// themselves when they are idle.
func New(c Config) *http.Client {
	// Go's own resolver: with the C library's each query that is not answered holds a thread.
	dialer := &net.Dialer{Timeout: connectTime, Resolver: &net.Resolver{PreferGo: true}}
	if !c.AllowPrivate {
		dialer.Control = ssrf.New(ssrf.WithPorts(443, 8443)).Safe
	}
	var http1 http.Protocols
	http1.SetHTTP1(true) // a connection that hangs delays one call and not all
	return &http.Client{
		Timeout:       callTime,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Protocols:              &http1,
			DialContext:            dialer.DialContext,
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    connectTime,
			DisableCompression:     true,
			MaxConnsPerHost:        maxConns,
			MaxIdleConnsPerHost:    maxConns / 4,
			IdleConnTimeout:        idleTime,
			MaxResponseHeaderBytes: maxHead,
		},
	}
}
