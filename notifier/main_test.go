package notifier

import (
	"flag"
	"os"
	"runtime"
	"strconv"
	"testing"

	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

const natsServer = "nats-server"

// TestMain runs more tests at a time than there are processors, unless -parallel
// says how many: most of them wait for repairs.
//
// As the program nats-server it is one.
func TestMain(m *testing.M) {
	if os.Args[0] == natsServer {
		if err := bustest.ServeNATS(os.Args[1:]); err != nil {
			panic(err)
		}
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	healthtest.VerifyMain(m)
}
