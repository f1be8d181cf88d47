// Package freeports chooses ports for servers that start later.
//
// A port that the system chooses may belong to a connection by the time the server starts: it
// gives connections that go out ports of the same range, and on loopback even one that tries
// to reach this very port. So the ports here are below that range, which begins at 32768 on
// Linux and at 49152 elsewhere (RFC 6335).
package freeports

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

const (
	first = 10_000
	count = 20_000
	tries = 1_000
)

// Addresses are n different addresses at which nothing listens.
func Addresses(host string, n int) (all []string, err error) {
	var taken []net.Listener // until the last one is known
	defer func() {
		for _, l := range taken {
			err = errors.Join(err, l.Close())
		}
	}()
	for range tries {
		if len(all) == n {
			return all, nil
		}
		address := net.JoinHostPort(host, strconv.Itoa(first+rand.IntN(count))) //nolint:gosec // nothing depends on chance
		l, err := net.Listen("tcp", address)
		switch {
		case err == nil:
			taken, all = append(taken, l), append(all, address)
		case !errors.Is(err, syscall.EADDRINUSE):
			return nil, err
		}
	}
	return nil, fmt.Errorf("of %d ports of %s none is free", tries, host)
}
