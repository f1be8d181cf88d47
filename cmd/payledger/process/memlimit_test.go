package process

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// The limit of a container leaves room for mapped files, unless the operator says how
// much Go may use.
func TestLimitOfAContainer(t *testing.T) {
	const container = 1000 << 20
	none := func() (uint64, error) { return 0, memlimit.ErrNoLimit }
	t.Setenv("GOMEMLIMIT", "") // restored at the end, whatever the machine has set
	if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
		t.Fatal(err)
	}
	before := debug.SetMemoryLimit(-1)
	for _, c := range []struct {
		what  string
		limit memlimit.Provider
		env   string
		want  int64
	}{
		{"limited", memlimit.Limit(container), "", 600 << 20},
		{"not limited", none, "", math.MaxInt64},
		{"GOMEMLIMIT", memlimit.Limit(container), "123456789", before},
	} {
		if c.env != "" {
			t.Setenv("GOMEMLIMIT", c.env) // read at the start of the process: here nothing changes
		}
		undo := heedLimit(c.limit)
		if got := debug.SetMemoryLimit(-1); got != c.want {
			t.Errorf("%s: %d bytes, want %d", c.what, got, c.want)
		}
		undo()
		if got := debug.SetMemoryLimit(-1); got != before {
			t.Errorf("%s: %d bytes after the end, want %d", c.what, got, before)
		}
	}
}
