package httpapi

import (
	"fmt"
	"testing"
	"time"
)

func TestLimiterForgetsTheOldest(t *testing.T) {
	t.Parallel()
	l := newLimiter("x", Rate{PerSecond: 1, Burst: 1})
	now := time.UnixMilli(0)
	l.take("first", now)
	for i := range maxBuckets - 1 {
		l.take(fmt.Sprint(i), now)
	}
	if l.take("first", now).ok {
		t.Error("a bucket was forgotten while there was room")
	}
	l.take("one more", now)
	if len(l.byName) != maxBuckets || l.recent.Len() != maxBuckets {
		t.Errorf("%d buckets", len(l.byName))
	}
	if l.take("first", now).ok {
		t.Error("a bucket in use was forgotten before older ones")
	}
	if !l.take("0", now).ok {
		t.Error("the oldest bucket was kept")
	}
}
