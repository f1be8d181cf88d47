package diskspace

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The file system is asked once a second at most, and what it cannot tell stops
// nothing.
func TestLow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New("/", 100)
		free, asked, failure := uint64(100), 0, error(nil)
		w.free = func(string) (uint64, error) {
			asked++
			return free, failure
		}
		low := func(want bool) {
			t.Helper()
			if got := w.Low(); got != want {
				t.Errorf("Low = %t after %d looks, want %t", got, asked, want)
			}
		}
		low(false)
		free = 99
		low(false)
		time.Sleep(period)
		low(true)
		low(true)
		free = 100
		low(true)
		time.Sleep(period)
		low(false)
		if asked != 3 {
			t.Errorf("the file system was asked %d times, want 3", asked)
		}
		free, failure = 0, errors.New("it cannot be read")
		time.Sleep(period)
		low(false)
	})
}

func TestFreeSpaceOfTheSystem(t *testing.T) {
	t.Parallel()
	free, err := Free(t.TempDir())
	if err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
}
