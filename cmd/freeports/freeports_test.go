package freeports

import (
	"net"
	"slices"
	"testing"
)

func TestAddresses(t *testing.T) {
	t.Parallel()
	all, err := Addresses("127.0.0.1", 20)
	if err != nil || len(all) != 20 {
		t.Fatalf("%v: %v", all, err)
	}
	for i, address := range all {
		if slices.Contains(all[:i], address) {
			t.Errorf("%s twice", address)
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Error(err)
			continue
		}
		if port := l.Addr().(*net.TCPAddr).Port; port >= 32768 { //nolint:forcetypeassert // it is one
			t.Errorf("port %d may be given to a connection", port)
		}
		_ = l.Close()
	}
	if all, err := Addresses("192.0.2.1", 1); err == nil {
		t.Errorf("addresses of another machine: %v", all)
	}
}
