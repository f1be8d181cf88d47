package embedded

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"payledger/notifier/health/healthtest"
)

// fake is a connection from an address.
type fake struct {
	net.Conn

	remote string
	closed bool
}

func (f *fake) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(f.remote), Port: 1}
}

func (f *fake) Close() error {
	f.closed = true
	return nil
}

// came lets connections of an address in.
func came(l *admission, n int, remote string, now time.Time) (in []*fake, of []*admitted) {
	for range n {
		raw := &fake{remote: remote}
		if c := l.admit(raw, now); c != nil {
			in, of = append(in, raw), append(of, c)
		}
	}
	return in, of
}

func closed(all []*fake) (n int) {
	for _, f := range all {
		if f.closed {
			n++
		}
	}
	return n
}

// leaveAll ends the waits, and with them the timers.
func leaveAll(t *testing.T, l *admission) {
	t.Helper()
	for _, all := range l.waiting {
		for _, c := range append([]*admitted(nil), all...) {
			c.leaves()
		}
	}
	if l.waits() != 0 || len(l.waiting) != 0 {
		t.Errorf("%d wait, of %d addresses", l.waits(), len(l.waiting))
	}
}

func TestOneAddressIsBounded(t *testing.T) {
	t.Parallel()
	l, now := newAdmission(nil, "test", healthtest.Log(t)), time.Now()
	defer leaveAll(t, l)
	first, conns := came(l, PerAddress+10, "192.0.2.1", now)
	if len(first) != PerAddress || closed(first) != 0 {
		t.Fatalf("%d of one address are let in and %d closed, want %d", len(first), closed(first), PerAddress)
	}
	if others, _ := came(l, 3, "::ffff:192.0.2.1", now.Add(settled-1)); len(others) != 0 {
		t.Error("a new connection takes the place of one that has just come")
	}
	if others, _ := came(l, 3, "192.0.2.1", now.Add(settled)); len(others) != 3 || closed(first) != 3 || !first[0].closed {
		t.Errorf("%d are let in for %d later", len(others), closed(first))
	}
	for _, c := range conns[3:13] {
		c.leaves()
	}
	if others, _ := came(l, 13, "192.0.2.1", now.Add(settled-1)); len(others) != 10 {
		t.Errorf("ten have signed in, and %d are let in", len(others))
	}
	if others, _ := came(l, 3, "192.0.2.2", now); len(others) != 3 {
		t.Errorf("%d of another address are let in", len(others))
	}
}

func TestAllAddressesAreBounded(t *testing.T) {
	t.Parallel()
	l, now := newAdmission(nil, "test", healthtest.Log(t)), time.Now()
	defer leaveAll(t, l)
	most, _ := came(l, PerAddress, "192.0.2.1", now)
	var few []*fake
	for i := range MaxWaiting - PerAddress {
		in, _ := came(l, 1, fmt.Sprintf("2001:db8:0:%x::1", i), now)
		few = append(few, in...)
	}
	if l.waits() != MaxWaiting {
		t.Fatalf("%d wait, want %d", l.waits(), MaxWaiting)
	}
	late, _ := came(l, 10, "192.0.2.3", now)
	if len(late) != 10 || closed(late) != 0 || closed(few) != 0 || closed(most) != 10 || !most[9].closed || l.waits() != MaxWaiting {
		t.Errorf("%d are let in and %d of these closed, for %d of the address that has most and %d others", len(late), closed(late), closed(most), closed(few))
	}
	if in, _ := came(l, 1, "192.0.2.1", now); len(in) != 0 {
		t.Error("the address that has most gets another one")
	}
}

func TestNetworksOfIPv6AreOneAddress(t *testing.T) {
	t.Parallel()
	l, now := newAdmission(nil, "test", healthtest.Log(t)), time.Now()
	defer leaveAll(t, l)
	in := 0
	for i := range PerAddress + 5 {
		all, _ := came(l, 1, fmt.Sprintf("2001:db8::%x", i), now)
		in += len(all)
	}
	if in != PerAddress {
		t.Errorf("%d of one network are let in, want %d", in, PerAddress)
	}
}

func TestWhoDoesNotAuthenticateIsClosed(t *testing.T) {
	t.Parallel()
	raw, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := newAdmission(raw, "test", healthtest.Log(t))
	var clients []net.Conn
	for i := range 2 {
		client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close() })
		clients = append(clients, client)
		c, err := l.accept()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if i == 0 {
			c.leaves()
		}
	}
	began := time.Now()
	if _, err := clients[1].Read(make([]byte, 1)); err == nil || time.Since(began) < Patience-settled || time.Since(began) > Patience+5*time.Second {
		t.Errorf("the silent one was closed after %v: %v", time.Since(began), err)
	}
	if err := clients[0].SetReadDeadline(time.Now().Add(settled)); err != nil {
		t.Fatal(err)
	}
	if _, err := clients[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the other one: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}
