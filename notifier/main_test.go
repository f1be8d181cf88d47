package notifier

import (
	"os"
	"testing"

	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

const natsServer = "nats-server"

// TestMain runs the tests, or is the program nats-server.
func TestMain(m *testing.M) {
	if os.Args[0] == natsServer {
		if err := bustest.ServeNATS(os.Args[1:]); err != nil {
			panic(err)
		}
		return
	}
	healthtest.VerifyMain(m)
}
