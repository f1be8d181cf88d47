package notifier

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"payledger/notifier/health/healthtest"
)

// TestMain runs more tests at a time than there are processors, unless -parallel
// says how many: most of them wait for repairs.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	healthtest.VerifyMain(m, func() {
		if serverBinary.dir != "" {
			_ = os.RemoveAll(serverBinary.dir)
		}
	})
}
