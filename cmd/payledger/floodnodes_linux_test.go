package main

import (
	"crypto/tls"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/cmd/payledger/members"
	"payledger/notifier/health/healthtest"
)

// TestNoFloodKeepsNodesOut: silent connections of one address, and such as speak no TLS,
// do not keep a node from joining, nor nodes that run from connecting to each other.
func TestNoFloodKeepsNodesOut(t *testing.T) {
	inLong(t)
	n := &nodes{servers: make([]*server, len(nodeNames))}
	begin := []string{"cluster", "init", "--data", t.TempDir() + "/a"}
	for _, name := range nodeNames {
		n.dirs = append(n.dirs, t.TempDir()+"/"+name)
		begin = append(begin, name+"="+healthtest.FreeAddress(t))
	}
	n.dirs[0] = begin[3]
	does(t, "init", "--data", n.dirs[0])
	does(t, begin...)
	address := addressesOf(t, n.dirs[0])[0]
	joins(t, n.dirs[0], "b", n.dirs[1])
	token, invited := invite(t, n.dirs[0], "c")
	end := flood(t, address, 700, "")
	inTime(t, 10, func() error {
		c, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address)
		if err == nil {
			c.Close()
		}
		return err
	})
	does(t, "cluster", "join", token, "--data", n.dirs[2])
	if err := invited.Wait(); err != nil {
		t.Fatalf("inviting c: %v", err)
	}
	end()

	n.start(t, 0, 1, 2)
	n.project(t)
	boundsSilent(t, address)
	peer, err := members.Load(datadir.Dir(n.dirs[1]))
	if err != nil {
		t.Fatal(err)
	}
	conf, err := peer.TLS()
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
