package webhook

import (
	"context"
	"io"
	"log"
	"net"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// Package net keeps what it knows of the system's resolver, with a channel: made in a
	// synctest bubble, no other one could use it.
	none := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, net.ErrClosed }}
	_, _ = none.LookupHost(context.Background(), "shop.example")
	goleak.VerifyTestMain(m)
}

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
