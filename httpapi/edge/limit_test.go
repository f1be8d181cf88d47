package edge

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestLimiterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := NewLimiter("x", nil)
	once := Rate{PerSecond: 1, Burst: 1}
	now := time.UnixMilli(0)
	l.Take("first", once, now)
	for i := range maxBuckets - 1 {
		l.Take(fmt.Sprint(i), once, now)
	}
	if l.Take("first", once, now).OK {
		t.Error("a bucket was forgotten while there was room")
	}
	l.Take("one more", once, now)
	if len(l.byName) != maxBuckets || l.recent.Len() != maxBuckets {
		t.Errorf("%d buckets", len(l.byName))
	}
	if l.Take("first", once, now).OK {
		t.Error("a bucket in use was forgotten before older ones")
	}
	if !l.Take("0", once, now).OK {
		t.Error("the oldest bucket was kept")
	}
}

// A rate that changes holds at once: what was used stays used.
func TestLimiterTakesAnotherRate(t *testing.T) {
	t.Parallel()
	l, now := NewLimiter("x", nil), time.UnixMilli(0)
	for i := range 4 {
		if !l.Take("a", PerSecond(2), now).OK {
			t.Fatalf("request %d was refused", i)
		}
	}
	if l.Take("a", PerSecond(1), now).OK || l.Take("a", PerSecond(100), now).OK || !l.Take("a", PerSecond(0), now).OK {
		t.Error("an empty bucket lets a request pass, or one without a limit does not")
	}
	now = now.Add(time.Second)
	for i := range 100 {
		if !l.Take("a", PerSecond(100), now).OK {
			t.Fatalf("request %d of the second was refused", i)
		}
	}
	now = now.Add(time.Hour)
	if v := l.Take("a", PerSecond(3), now); !v.OK || v.remaining != 5 {
		t.Errorf("%d requests are left, want 5", v.remaining)
	}
}

// TestServersShareARate: together they let as many requests pass as the rate says, each
// of them one at least, and those that are left have the share of one that is gone.
func TestServersShareARate(t *testing.T) {
	t.Parallel()
	now, live := time.UnixMilli(0), 3
	passes := func(l *Limiter, r Rate) (n int) {
		for l.Take("a", r, now).OK {
			n++
		}
		return n
	}
	for _, c := range []struct {
		rate  Rate
		nodes int
		want  int // of one server
	}{
		{PerSecond(3), 1, 6}, {PerSecond(3), 0, 6}, {PerSecond(3), 3, 2}, {PerSecond(25), 3, 16}, {PerSecond(1), 3, 1}, {PerMinute(1), 3, 1},
	} {
		if got := passes(NewLimiter("x", func() int { return c.nodes }), c.rate); got != c.want {
			t.Errorf("%+v among %d servers: %d requests, want %d", c.rate, c.nodes, got, c.want)
		}
	}
	l := NewLimiter("x", func() int { return live })
	if got := passes(l, PerSecond(30)); got != 20 {
		t.Errorf("%d requests, want 20", got)
	}
	header := make(http.Header)
	if err := l.Allow("a", PerSecond(30), now, header); err == nil || header.Get("RateLimit-Policy") != `"x";q=20;w=2` {
		t.Errorf("%v with %v", err, header)
	}
	now = now.Add(time.Second)
	if got := passes(l, PerSecond(30)); got != 10 {
		t.Errorf("%d requests after a second, want 10", got)
	}
	live = 2
	passes(l, PerSecond(30))
	now = now.Add(time.Second)
	if got := passes(l, PerSecond(30)); got != 15 {
		t.Errorf("%d requests in a second among two servers, want 15", got)
	}
	if err := NewLimiter("x", func() int { return 3 }).Allow("a", PerSecond(0), now, header); err != nil {
		t.Errorf("without a limit: %v", err)
	}
}
