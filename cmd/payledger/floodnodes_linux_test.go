package main

import (
	"crypto/tls"
	"net"
	"os"
	"testing"

	"payledger/cmd/payledger/clusternode"
	"payledger/cmd/payledger/datadir"
	"payledger/httpapi/peer"
)

// TestNoFloodKeepsNodesOut: silent connections of one address, and such as speak no TLS,
// do not keep a node from joining, nor nodes that run from connecting to each other.
func TestNoFloodKeepsNodesOut(t *testing.T) {
	inLong(t)
	n := newNodes(t)
	address := addressesOf(t, n.dirs[0])[0]
	if err := os.RemoveAll(n.dirs[2]); err != nil {
		t.Fatal(err)
	}
	first := n.command(0)
	out, err := first.begin()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(first.kill)
	go first.ready(out) //nolint:errcheck // it is never ready
	eventually(t, "the first node listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	end := flood(t, address, 700, "")
	n.joins(t, 0, 2)
	end()
	first.stops(t)

	n.start(t, 0, 1, 2)
	n.project(t)
	boundsSilent(t, address)
	key, err := clusternode.ReadKey(datadir.Dir(n.dirs[1]).ClusterKey())
	if err != nil {
		t.Fatal(err)
	}
	conf, err := peer.TLS(key, "b")
	if err != nil {
		t.Fatal(err)
	}
	for _, sends := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		end = flood(t, address, 700, sends)
		inTime(t, 10, func() error {
			c, err := (&tls.Dialer{Config: conf}).DialContext(t.Context(), "tcp", address)
			if err != nil {
				return err
			}
			defer c.Close()
			_, err = c.Read(make([]byte, 1)) // of what the node tells other nodes alone
			return err
		})
		end()
	}
	flood(t, address, 700, "")
	n.servers[2].stops(t)
	n.start(t, 2)
	for i := range n.servers {
		if a, ok := n.persist(t, i, "POST", "/v1/payments", `{"amount":"15.00"}`); !ok || a.Status != 201 {
			t.Fatalf("POST: %d %s", a.Status, a.Body)
		}
	}
	n.agree(t, len(n.servers))
}
