package webhook

import (
	"io"
	"log"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func silent() *log.Logger { return log.New(io.Discard, "", 0) }
