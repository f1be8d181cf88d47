package conns

import (
	"net/http"
	"testing"
)

func TestVisitor(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ remote, forwarded, network, client string }{
		{"192.0.2.7:1234", "", "192.0.2.7", "192.0.2.7"},
		{"[::ffff:192.0.2.7]:1", "", "192.0.2.7", "192.0.2.7"},
		{"[2001:db8:1:2:3::4]:1", "", "2001:db8:1:2::/64", "2001:db8:1:2:3::4"},
		{"[fe80::1%eth0]:1", "", "fe80::/64", "fe80::1%eth0"},
		{"@", "", "@", "@"},
		{"", "", "", ""},
		{"[2001:db8:1:2:ffff::9]:2", "", "2001:db8:1:2::/64", "2001:db8:1:2:ffff::9"},
		{"192.0.2.7:1234", "198.51.100.9", "192.0.2.7", "192.0.2.7"}, // nobody's proxy
		{"127.0.0.1:1", "192.0.2.7, 198.51.100.9", "198.51.100.9", "198.51.100.9"},
		{"10.1.2.3:1", "2001:db8:1:2:3::4", "2001:db8:1:2::/64", "2001:db8:1:2:3::4"},
		{"10.1.2.3:1", "192.0.2.7:80, 198.51.100.9:50321", "198.51.100.9", "198.51.100.9"}, // some proxies name the port
		{"10.1.2.3:1", "[2001:db8:1:2:3::4]:50321", "2001:db8:1:2::/64", "2001:db8:1:2:3::4"},
		{"10.1.2.3:1", "nonsense", "10.1.2.3", "10.1.2.3"},
	} {
		r := &http.Request{RemoteAddr: c.remote, Header: http.Header{}}
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if network, client := Visitor(r), Client(r); network != c.network || client != c.client {
			t.Errorf("%s for %q: %s, %s; want %s, %s", c.remote, c.forwarded, network, client, c.network, c.client)
		}
	}
}
