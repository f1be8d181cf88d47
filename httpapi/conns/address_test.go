package conns

import "testing"

func TestPeer(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"192.0.2.7:1234":           "192.0.2.7",
		"[::ffff:192.0.2.7]:1":     "192.0.2.7",
		"[2001:db8:1:2:3::4]:1":    "2001:db8:1:2::/64",
		"[fe80::1%eth0]:1":         "fe80::/64",
		"@":                        "@",
		"":                         "",
		"[2001:db8:1:2:ffff::9]:2": "2001:db8:1:2::/64",
	} {
		if got := Peer(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}
