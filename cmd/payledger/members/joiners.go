package members

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"

	"payledger/notifier/bus/admission"
)

// joiners is the listener for nodes that join, as net/http needs it.
type joiners struct{ *admission.Listener }

// Accept implements net.Listener.
func (j joiners) Accept() (net.Conn, error) {
	c, err := j.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// connKey is the key of a request's *admission.Conn in its context.
type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	if secure, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, connKey{}, secure.NetConn())
	}
	return ctx
}

// authenticated tells that the other end of a request's connection has the secret.
func authenticated(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*admission.Conn); ok {
		c.Authenticated()
	}
}
