package external

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
	"payledger/notifier/health/healthtest"
)

func TestMain(m *testing.M) { healthtest.VerifyMain(m) }

const accounts = `
	accounts {
		LEDGER { jetstream: enabled, users: [
			{user: ledger, password: p},
			{user: publisher, password: p, permissions: {publish: ["$JS.API.>", "payledger.v1.>", "_INBOX_ledger.>"]}},
			{user: subscriber, password: p, permissions: {subscribe: ["_INBOX_ledger.>", "payledger.v1.>"]}},
			{user: nothing, password: p, permissions: {publish: "payledger.>"}},
		] }
		OTHER { jetstream: enabled, users: [{user: other, password: p}] }
		PLAIN { users: [{user: plain, password: p}] }
		SYSTEM { users: [{user: system, password: p}] }
	}
	system_account: SYSTEM
`

var log = domain.ID{1, 2, 3}

func as(user string) nats.Option { return nats.UserInfo(user, "p") }

// check checks servers as a user.
func check(t *testing.T, s Servers, user string) error {
	t.Helper()
	s.Options, s.Replicas = []nats.Option{as(user)}, 3
	c, err := bus.Connect(s.External, healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), healthtest.Patience)
	defer cancel()
	return Check(ctx, c, s, log, func(err error) { t.Log(err) })
}

func refused(t *testing.T, err error, want string) {
	t.Helper()
	if !errors.As(err, new(*RefusalError)) || !regexp.MustCompile(want).MatchString(err.Error()) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestCheck checks servers that will do, and what is wrong with others.
func TestCheck(t *testing.T) {
	t.Parallel()
	servers := bustest.StartServers(t, 3, 0, accounts)
	addresses := servers.URL
	good := Servers{External: bus.External{URL: addresses}, System: []nats.Option{as("system")}}
	if err := check(t, good, "ledger"); err != nil {
		t.Errorf("servers that will do: %v", err)
	}
	for user, want := range map[string]string{
		"nobody":     "(?i)do not let this node in: .*authorization",
		"plain":      "account has no JetStream",
		"publisher":  `lacks a right .*Publish to "payledger.node.check"`,
		"subscriber": `lacks a right .*Subscription to "payledger.node.check"`,
		"nothing":    `lacks a right .*Publish to "\$JS.API.CONSUMER.DELETE.check.check"`,
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			refused(t, check(t, good, user), want)
		})
	}
	unknown := Servers{External: good.External}
	refused(t, check(t, unknown, "ledger"), "--nats-system-credentials, or .*--accept-lazy-sync")
	unknown.LazySync = true
	if err := check(t, unknown, "ledger"); err != nil {
		t.Errorf("accepted without knowing: %v", err)
	}
	for user, want := range map[string]string{"ledger": "none of the servers' system account", "nobody": "do not let in the user of --nats-system-credentials"} {
		wrong := good
		wrong.System = []nats.Option{as(user)}
		refused(t, check(t, wrong, "ledger"), want)
	}

	// The streams of another log, and streams that one server keeps.
	nc, err := nats.Connect(addresses, as("other"))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		of       domain.ID
		replicas int
		want     string
	}{
		{domain.ID{9}, 3, "EVENTS holds the log 0.*, and this is"},
		{log, 1, "EVENTS is kept by 1 of the servers, and it takes 3: nats stream edit EVENTS --replicas 3"},
	} {
		config := bus.EventsConfig(c.of)
		config.Replicas = c.replicas
		if _, err := js.CreateStream(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		refused(t, check(t, good, "other"), c.want)
		if err := js.DeleteStream(t.Context(), config.Name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOG", Subjects: []string{"log"}}); err != nil {
		t.Fatal(err)
	}
	refused(t, check(t, good, "other"), "LOG was not made by payledger")
}

// TestServerThatIsDown: a server that keeps LOG, or may come to, and does not say whether
// it syncs every write is refused. One that comes back and does not is noticed.
func TestServerThatIsDown(t *testing.T) {
	if os.Getenv("PAYLEDGER_LONG") == "" {
		t.Skip("it asks a server that is down until it is refused: run with PAYLEDGER_LONG=1")
	}
	t.Parallel()
	servers := bustest.StartServers(t, 3, 0, accounts)
	s := Servers{External: bus.External{URL: servers.URL, Options: []nats.Option{as("ledger")}, Replicas: 3}, System: []nats.Option{as("system")}}
	if err := check(t, s, "ledger"); err != nil {
		t.Fatal(err)
	}
	c, err := bus.Connect(s.External, healthtest.Log(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config := bus.EventsConfig(log)
	config.Name, config.Subjects, config.Replicas = "LOG", []string{"payledger.log"}, 3
	if _, err := c.JetStream().CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	until := func(want string, is func(error) bool) {
		t.Helper()
		for deadline := time.Now().Add(healthtest.Patience); ; time.Sleep(pause) {
			err := Recheck(t.Context(), c, s)
			if is(err) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v, want %s", err, want)
			}
		}
	}
	until("that all sync", func(err error) bool { return err == nil })

	servers.Stop(2)
	accepted := s
	accepted.LazySync = true
	t.Run("refusals", func(t *testing.T) { // each takes some ten seconds
		for user, want := range map[string]string{
			"ledger": "n3; start them, or .*--accept-lazy-sync",
			"other":  "all but 2, and the log takes 3",
		} {
			t.Run(user, func(t *testing.T) {
				t.Parallel()
				refused(t, check(t, s, user), "have not said whether they sync every write: "+want)
			})
		}
		t.Run("accepted without knowing", func(t *testing.T) {
			t.Parallel()
			if err := check(t, accepted, "ledger"); err != nil {
				t.Error(err)
			}
		})
	})
	until("that n3 is silent", func(err error) bool {
		return errors.As(err, new(*silentError)) && strings.Contains(err.Error(), ": n3")
	})

	servers.Unsync(2)
	servers.Start(t, 2)
	until("that n3 does not sync", func(err error) bool {
		return errors.As(err, new(*RefusalError)) && strings.Contains(err.Error(), "do not sync every write: n3;")
	})
	if err := Recheck(t.Context(), c, accepted); err != nil {
		t.Errorf("accepted: %v", err)
	}
}

func TestServersThatDoNotSync(t *testing.T) {
	t.Parallel()
	addresses := bustest.StartServers(t, 3, 2, accounts).URL
	lazy := Servers{External: bus.External{URL: addresses}, System: []nats.Option{as("system")}}
	refused(t, check(t, lazy, "ledger"), "do not sync every write: n2, n3; set sync_interval: always")
	lazy.LazySync = true
	if err := check(t, lazy, "ledger"); err != nil {
		t.Errorf("accepted: %v", err)
	}
}

func TestServerThatIsAlone(t *testing.T) {
	t.Parallel()
	address := bustest.StartServers(t, 1, 0, accounts).URL
	refused(t, check(t, Servers{External: bus.External{URL: address}, LazySync: true}, "ledger"), "server n1 is alone")
}

func TestOlder(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]bool{
		"2.15.2": false, "2.15.3": false, "2.16.0": false, "3.0.0": false, "2.15.2-RC.1": false, "v2.15.10": false,
		"2.15.1": true, "2.14.9": true, "1.99.99": true, "2.9.25": true, "": true, "dev": true,
	} {
		if older(version, oldest) != want {
			t.Errorf("%q older than %s: %v", version, oldest, !want)
		}
	}
}

func TestWithoutUser(t *testing.T) {
	t.Parallel()
	for with, want := range map[string]string{
		"nats://u:p@a:4222,b:4222,u:p@c:4222": "nats://a:4222,b:4222,c:4222",
		"tls://a":                             "tls://a",
	} {
		if got := withoutUser(with); got != want {
			t.Errorf("%s: %s, want %s", with, got, want)
		}
	}
}
