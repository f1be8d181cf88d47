package edge

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestLimiterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := NewLimiter("x")
	once := Rate{PerSecond: 1, Burst: 1}
	now := time.UnixMilli(0)
	_ = l.Allow("first", once, now, nil)
	for i := range maxBuckets - 1 {
		_ = l.Allow(fmt.Sprint(i), once, now, nil)
	}
	if l.Allow("first", once, now, nil) == nil {
		t.Error("a bucket was forgotten while there was room")
	}
	_ = l.Allow("one more", once, now, nil)
	if len(l.byName) != maxBuckets || l.recent.Len() != maxBuckets {
		t.Errorf("%d buckets", len(l.byName))
	}
	if l.Allow("first", once, now, nil) == nil {
		t.Error("a bucket in use was forgotten before older ones")
	}
	if l.Allow("0", once, now, nil) != nil {
		t.Error("the oldest bucket was kept")
	}
}

// A rate that changes holds at once: what was used stays used.
func TestLimiterTakesAnotherRate(t *testing.T) {
	t.Parallel()
	l, now := NewLimiter("x"), time.UnixMilli(0)
	for i := range 4 {
		if l.Allow("a", PerSecond(2), now, nil) != nil {
			t.Fatalf("request %d was refused", i)
		}
	}
	if l.Allow("a", PerSecond(1), now, nil) == nil || l.Allow("a", PerSecond(100), now, nil) == nil || l.Allow("a", PerSecond(0), now, nil) != nil {
		t.Error("an empty bucket lets a request pass, or one without a limit does not")
	}
	now = now.Add(time.Second)
	for i := range 100 {
		if l.Allow("a", PerSecond(100), now, nil) != nil {
			t.Fatalf("request %d of the second was refused", i)
		}
	}
	now = now.Add(time.Hour)
	left := make(http.Header)
	if err := l.Allow("a", PerSecond(3), now, left); err != nil || left.Get("RateLimit") != `"x";r=5;t=1` {
		t.Errorf("%v, and %s, want 5 left", err, left.Get("RateLimit"))
	}
}
