package count

import "testing"

func TestOf(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 2: "2 events", 21: "21 events"} {
		if got := Of(n, "event"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
