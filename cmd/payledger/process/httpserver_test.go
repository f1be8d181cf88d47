package process

import (
	"net"
	"testing"
)

func TestLinksNameAnAddressThatCanBeOpened(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		"0.0.0.0:8080": "localhost:8080", "[::]:8080": "localhost:8080",
		"127.0.0.1:8080": "127.0.0.1:8080", "[::1]:8080": "[::1]:8080", "192.0.2.7:80": "192.0.2.7:80",
	} {
		addr, err := net.ResolveTCPAddr("tcp", listen)
		if err != nil {
			t.Fatal(err)
		}
		if got := Reachable(addr); got != want {
			t.Errorf("listening on %s: %s, want %s", listen, got, want)
		}
	}
}
