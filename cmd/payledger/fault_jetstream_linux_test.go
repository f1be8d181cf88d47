package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"payledger/cmd/payledger/datadir"
	"payledger/eventstore/storetest"
)

// TestJetStreamDiskFull fills only the disk of nats/, to the last byte. Payments are
// still recorded and routed, /readyz reports that subscribers wait, and with room they get
// the events, and outcomes are judged, without a restart.
func TestJetStreamDiskFull(t *testing.T) {
	t.Parallel()
	disk := storetest.NewTmpfs(t, 16)
	h := newShop(t, filepath.Join(t.TempDir(), "data"))
	if err := os.Mkdir(filepath.Join(disk, "nats"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(disk, "nats"), datadir.Dir(h.data).NATS()); err != nil {
		t.Fatal(err)
	}
	s := h.serve(t)
	s.paid(t)
	if got := string(s.do(t, 200, "GET", "/readyz", "").Body); got != "ok\n" {
		t.Errorf("/readyz: %q", got)
	}
	fill(t, disk, 0)
	var id string
	for range 200 {
		id = s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`).text(t, "id")
	}
	eventually(t, "/readyz tells that subscribers wait", func() bool {
		got := string(s.do(t, 200, "GET", "/readyz", "").Body)
		return strings.HasPrefix(got, "degraded\n") && strings.Contains(got, "Events are not copied to NATS")
	})
	s.do(t, 201, "POST", "/v1/payments", `{"amount":"1"}`)
	removeAll(t, filepath.Join(disk, "filler"))
	eventually(t, "all payments are routed", func() bool {
		return strings.Contains(string(s.do(t, 200, "GET", "/v1/payments?status=created", "").Body), `"data":[]`)
	})
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	eventually(t, "/readyz tells that nothing waits", func() bool {
		return string(s.do(t, 200, "GET", "/readyz", "").Body) == "ok\n"
	})
	if !strings.Contains(s.stderr.String(), "free some space") {
		t.Error("the log does not tell what to do")
	}
	s.stops(t)
}
