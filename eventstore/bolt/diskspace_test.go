package bolt

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The file system is asked once a second at most, and what it cannot tell stops
// nothing.
func TestSpaceIsLow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newSpace("/", 100)
		free, asked, failure := uint64(100), 0, error(nil)
		w.free = func(string) (uint64, error) {
			asked++
			return free, failure
		}
		low := func(want bool) {
			t.Helper()
			if got := w.isLow(); got != want {
				t.Errorf("Low = %t after %d looks, want %t", got, asked, want)
			}
		}
		low(false)
		free = 99
		low(false)
		time.Sleep(spaceEvery)
		low(true)
		low(true)
		free = 100
		low(true)
		time.Sleep(spaceEvery)
		low(false)
		if asked != 3 {
			t.Errorf("the file system was asked %d times, want 3", asked)
		}
		free, failure = 0, errors.New("it cannot be read")
		time.Sleep(spaceEvery)
		low(false)
	})
}

func TestFreeSpaceOfTheSystem(t *testing.T) {
	t.Parallel()
	free, err := FreeSpace(t.TempDir())
	if err != nil || free == 0 {
		t.Errorf("%d, %v", free, err)
	}
}
