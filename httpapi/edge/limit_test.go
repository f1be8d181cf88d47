package edge

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := NewLimiter("x", Rate{PerSecond: 1, Burst: 1})
	now := time.UnixMilli(0)
	l.Take("first", now)
	for i := range maxBuckets - 1 {
		l.Take(fmt.Sprint(i), now)
	}
	if l.Take("first", now).OK {
		t.Error("a bucket was forgotten while there was room")
	}
	l.Take("one more", now)
	if len(l.byName) != maxBuckets || l.recent.Len() != maxBuckets {
		t.Errorf("%d buckets", len(l.byName))
	}
	if l.Take("first", now).OK {
		t.Error("a bucket in use was forgotten before older ones")
	}
	if !l.Take("0", now).OK {
		t.Error("the oldest bucket was kept")
	}
}
