package main

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/notifier/health/healthtest"
)

// TestNodesTakeSubscribers: a consumer that was made at one node reads at all of them. A
// program that names all three goes on when its node is killed, and when the leader is: it
// gets every event in the log's order, none is left out.
func TestNodesTakeSubscribers(t *testing.T) {
	unraced(t)
	t.Parallel()
	n := newNodes(t)
	for range nodeNames {
		n.more = append(n.more, []string{"--nats-listen", healthtest.FreeAddress(t)})
	}
	n.start(t, 0, 1, 2)
	n.project(t)
	follower := (n.leader(t, 0) + 1) % 3
	c := newConsumer(t, n.servers[follower], "till")
	for _, s := range n.servers { // each has its users
		eventually(t, "the consumer can sign in at "+s.NATSAddress, func() bool {
			nc, err := nats.Connect(s.NATSAddress, nats.UserInfo(c.User, c.Password), nats.NoReconnect())
			if err == nil {
				nc.Close()
			}
			return err == nil
		})
	}
	var all []string
	for _, s := range n.servers {
		all = append(all, "nats://"+s.NATSAddress)
	}
	nc, err := nats.Connect(strings.Join(all, ","), nats.UserInfo(c.User, c.Password), nats.CustomInboxPrefix(c.InboxPrefix),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond), nats.DontRandomize())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	last := uint64(0) // position
	reads := func(until int) {
		t.Helper()
		seen := 0
		eventually(t, "all events are read", func() bool {
			durable, err := js.Consumer(t.Context(), c.Stream, c.Durable)
			if err != nil {
				return false
			}
			batch, err := durable.Fetch(100, jetstream.FetchMaxWait(500*time.Millisecond))
			if err != nil {
				return false
			}
			for m := range batch.Messages() {
				at, err := strconv.ParseUint(m.Headers().Get("ce-position"), 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				if at > last { // else its acknowledgement was lost
					last = at
					seen++
				}
				_ = m.DoubleAck(healthtest.Within(t))
			}
			return seen >= until
		})
		if seen != until {
			t.Errorf("%d events, want %d", seen, until)
		}
	}
	n.payments(t, 0, 6) // one event each
	reads(6)
	for i, s := range n.servers { // the one that the program is connected to
		if strings.HasSuffix(nc.ConnectedUrl(), s.NATSAddress) {
			s.kill()
			n.payments(t, i+1, 3)
			reads(3)
			n.start(t, i)
			break
		}
	}
	n.servers[n.leader(t, 0)].kill()
	n.payments(t, 0, 3)
	reads(3)
}
