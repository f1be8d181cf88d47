package bus

import (
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

func TestConnectRefusesMalformedURLsWithoutTellingPasswords(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"nats://user:secret@host:port", "http://user:secret@host:4222", "nats://user:secret@", "nats://user:secret@host::",
		"nats://localhost:4222,user:secret@banana::", "nats://::1:4222", "nats://localhost:4222,",
	} {
		c, err := Connect(External{URL: bad}, zerolog.Nop())
		if err == nil {
			c.Close()
			t.Errorf("%s: connected", bad)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%v", err)
		}
	}
	for _, good := range []string{"localhost", "127.0.0.1:4222", "nats://a:4222, tls://b", "ws://[::1]:8080"} {
		for server := range strings.SplitSeq(good, ",") {
			if err := checkServer(strings.TrimSpace(server)); err != nil {
				t.Errorf("%s: %v", good, err)
			}
		}
	}
}

func TestAwayFromTheStartIsSaid(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	c, err := Connect(External{URL: "nats://user:secret@127.0.0.1:1"}, zerolog.New(&said).Level(zerolog.WarnLevel))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if !strings.Contains(said.String(), "NATS is away") || strings.Contains(said.String(), "secret") {
		t.Errorf("log: %s", said.String())
	}
}
