package main

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"payledger/notifier/collect"
)

// TestNotificationAmongHangingOnes: 1,000 notifications stay without the end of their
// body, at one route or at all, from many addresses or a few. The provider's is judged
// soon, also where the server takes fewer connections than there are.
func TestNotificationAmongHangingOnes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		addresses   int
		routes      []string
		connections string
	}{
		"one route":       {250, []string{"real"}, "4096"},
		"four addresses":  {4, []string{"real"}, "4096"},
		"few connections": {250, []string{"real", "other"}, "100"},
	} {
		t.Run(name, func(t *testing.T) { // one after the other, for the files they open
			p := playAdapter(t)
			p.settings += `,"other":` + p.settings
			s := openTill(t, p, "--max-connections", c.connections)
			b := s.create(t)
			s.atProvider(t, s.handOver(t, b), "pay")
			for i := range 1000 {
				s.hang(t, i%c.addresses+2, c.routes[i%len(c.routes)])
			}
			time.Sleep(collect.MinInterval) // the collector looks at no payment more often
			began := time.Now()
			s.notify(t)
			// A body has ten seconds. It takes some milliseconds where no other test runs.
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the provider's notification took %v", took)
			}
			s.becomes(t, paymentPath(b), "paid")
		})
	}
}

// hang sends a notification from 127.0.0.n, in the name of 192.0.2.n, without the end
// of its body.
func (s *till) hang(t *testing.T, n int, route string) {
	t.Helper()
	d := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(n))}}
	c, err := d.DialContext(t.Context(), "tcp", strings.TrimPrefix(s.BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	// The write fails where the server has refused the connection.
	_, _ = fmt.Fprintf(c, "POST /connectors/%s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.%d\r\nContent-Length: 100\r\n\r\n{", route, n)
}
