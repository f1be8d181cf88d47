package members

import (
	"crypto/tls"
	"net"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/health/healthtest"
)

// TestSilentConnectionsHideNoNode: who asks at the address of a node on the operator's NATS
// servers is shown its certificate at once, while others say nothing there.
func TestSilentConnectionsHideNoNode(t *testing.T) {
	t.Parallel()
	own := Address{"a", healthtest.FreeAddress(t)}
	m := &Member{Cluster: domain.ID{1}, Ledger: domain.ID{2}, Node: "a", Members: []Address{own, {"b", "127.0.0.1:1"}, {"c", "127.0.0.1:2"}}}
	if err := m.found(); err != nil {
		t.Fatal(err)
	}
	end, err := m.present(healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		c, err := net.Dial("tcp", own.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	conf, err := m.TLS()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	c, err := tls.DialWithDialer(&net.Dialer{Timeout: healthtest.Patience}, "tcp", own.Address, conf)
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("the certificate came after %v", took)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
}
