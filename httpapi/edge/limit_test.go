package edge

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := NewLimiter("x")
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
	l, now := NewLimiter("x"), time.UnixMilli(0)
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
