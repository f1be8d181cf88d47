package cluster

import (
	"testing"
	"time"
	"unsafe"
)

// set is a time that was read after the wall clock had been set forward by whole seconds:
// the monotonic clock, which is read with it, runs on. Package time has no way to make one.
func set(read time.Time, ahead time.Duration) time.Time {
	const second = 1 << 30 // of the wall clock, in the first word of a time with both
	*(*uint64)(unsafe.Pointer(&read)) += uint64(ahead/time.Second) * second
	return read
}

// The time of a node runs on when its clock is set, once that has agreed with another one.
func TestTimeOfClockThatIsSet(t *testing.T) {
	t.Parallel()
	agreed := time.Now()
	read := set(agreed.Add(3*time.Second), 10*time.Minute)
	if ahead := read.Round(0).Sub(agreed.Round(0)); ahead != 10*time.Minute+3*time.Second || read.Sub(agreed) != 3*time.Second {
		t.Fatalf("the clock was not set: its time is %v", ahead)
	}
	s := &Store{now: func() time.Time { return read }}
	if now := s.clock().Round(0); !now.Equal(read.Round(0)) {
		t.Errorf("before it was compared the time is %v, and the clock's is %v", now, read)
	}
	s.right.Store(&agreed)
	if now, want := s.clock().Round(0), agreed.Round(0).Add(3*time.Second); !now.Equal(want) {
		t.Errorf("the time is %v, want %v", now, want)
	}
}
