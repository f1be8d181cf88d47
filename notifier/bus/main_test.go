package bus

import (
	"testing"

	natsserver "github.com/nats-io/nats-server/v2/server"

	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

// plainServer is a NATS server in this process that knows no accounts.
type plainServer struct{ *natsserver.Server }

func (plainServer) Password() string                            { return "secret" }
func (plainServer) Consumers() *Consumers                       { return nil }
func (plainServer) ReloadConsumers() error                      { return nil }
func (plainServer) ForgetConsumer(string, string) (bool, error) { return false, nil }
func (plainServer) Replicas() int                               { return 1 }

// started is a server that ends with the test.
func started(tb testing.TB) plainServer {
	tb.Helper()
	s, err := natsserver.NewServer(&natsserver.Options{
		DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: tb.TempDir(),
		Users: []*natsserver.User{{Username: UserLedger, Password: "secret"}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(healthtest.Patience) {
		tb.Fatal("the server does not start")
	}
	return plainServer{s}
}

func connected(tb testing.TB, s Embedded) *Conn {
	tb.Helper()
	c, err := ConnectEmbedded(s, UserLedger, healthtest.Log(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}
