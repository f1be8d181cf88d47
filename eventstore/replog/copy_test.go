package replog

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// peerBody is a peer whose answer to anything is what it writes.
type peerBody func(to io.Writer)

func (p peerBody) RoundTrip(r *http.Request) (*http.Response, error) {
	body, to := io.Pipe()
	context.AfterFunc(r.Context(), func() { _ = to.CloseWithError(r.Context().Err()) })
	go p(to)
	return &http.Response{StatusCode: http.StatusOK, Body: body, Request: r}, nil
}

// A copy comes through however slow the line is, and only one of which nothing comes any more is
// given up. It keeps what it has.
func TestCopyOverASlowLine(t *testing.T) {
	t.Parallel()
	const records = 20
	b := batchOf(t, records)
	for what, x := range map[string]struct {
		most int
		want string
	}{
		"it is slow":      {records, ""},
		"it falls silent": {records / 2, "no record has come for 20s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			if err := bolt.Init(path, domain.ID{1, 2, 3}); err != nil {
				t.Fatal(err)
			}
			s, err := bolt.Open(path, bolt.Options{MinFree: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			client := &http.Client{Transport: peerBody(func(to io.Writer) {
				_, _ = to.Write(b.After.Sum[:])
				for i, r := range b.Records[:x.most] {
					time.Sleep(copyStall / 2)
					_, _ = to.Write(appendRecord(nil, r, b.DetailsOf(i)))
				}
				if x.most == records {
					_, _ = to.Write([]byte{0})
				}
			})}
			tip, err := Copy(t.Context(), client, "http://peer", false, s, func(eventstore.Position) {})
			switch {
			case x.want == "" && (err != nil || tip != b.End()):
				t.Errorf("%s: the copy ends at %v, want %v: %v", what, tip, b.End(), err)
			case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Errorf("%s: %v, want %q", what, err, x.want)
			}
		})
	}
}

// A follower that lacks records which LOG no longer has copies them from the leader, and does not
// overrun it while that fails: because the leader is only just becoming one, or its own disk is full.
func TestFailedCopiesPause(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	var copies atomic.Int64
	s, err := Open(t.Context(), Config{
		Name: "a", Peers: map[string]string{"b": "http://b"}, Key: testKey(1), Path: path, Bolt: bolt.Options{MinFree: 1}, Now: time.Now,
		Client: &http.Client{Transport: peerBody(func(to io.Writer) {
			copies.Add(1)
			_ = to.(io.Closer).Close()
		})},
	})
	if err != nil {
		t.Fatal(err)
	}
	copies.Store(0)
	s.mu.Lock()
	s.m.leader, s.m.gap = "b", 5
	s.mu.Unlock()
	const during = 5 * retryAfter
	s.post(tick{})
	time.Sleep(during)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := copies.Load(); n == 0 || n > 1+int64(during/retryAfter) {
		t.Errorf("%d copies in %v", n, during)
	}
}

// batchOf is so many records.
func batchOf(t *testing.T, records int) bolt.Batch {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	s, err := bolt.Open(path, bolt.Options{MinFree: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range records {
		if _, err := eventstore.AppendOne(t.Context(), s, paymentCommit(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	b, err := s.BatchAfter(t.Context(), 0)
	if err != nil || len(b.Records) != records {
		t.Fatalf("%d records: %v", len(b.Records), err)
	}
	return b
}
