package notifier

import (
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/rs/zerolog"

	"payledger/domain"
)

// logged keeps what is logged.
type logged struct {
	mu sync.Mutex
	strings.Builder
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(b)
}

func (l *logged) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Split(strings.TrimSpace(l.String()), "\n")
}

// alarmed is an enforcer of which the log is kept.
func alarmed(t *testing.T) (*court, *logged) {
	t.Helper()
	c, log := &court{book: newBook(t)}, new(logged)
	c.conn = connectTo(t, startServer(t, ServerConfig{}))
	c.enforcer = NewEnforcer(EnforcerConfig{Conn: c.conn, Ledger: c.Ledger, LogID: c.logID, IDs: c.ids, Log: zerolog.New(log)})
	run(t, c.enforcer.Run)
	c.ready(t)
	return c, log
}

// What an attempt from before the payment brings is booked nowhere, so the
// operator is told; what changes nothing anyway is counted alone.
func TestRefusedMoneyIsAnAlarm(t *testing.T) {
	t.Parallel()
	c, log := alarmed(t)
	p := c.routed(t)
	early := paid(p)
	early.StartedAt -= 2000
	if r := c.signal(t, p, early); r.Result != domain.SignalRefused || r.Reason != domain.ReasonStartedEarly {
		t.Fatalf("%+v", r)
	}
	failed := early
	failed.Outcome = domain.OutcomeFailed
	c.signal(t, p, failed)
	lines := log.lines()
	if len(lines) != 1 || !strings.Contains(lines[0], `"level":"error","reason":"started_early"`) ||
		!strings.Contains(lines[0], p.ID.String()) || !strings.Contains(lines[0], "ask the provider") {
		t.Errorf("%q", lines)
	}
	if n := testutil.ToFloat64(c.enforcer.refusals.WithLabelValues(domain.ReasonStartedEarly)); n != 2 {
		t.Errorf("%v refusals are counted", n)
	}
	in := paid(p)
	in.Reference = "ref-2"
	in.StartedAt -= in.StartedAt % 1000
	if r := c.signal(t, p, in); r.Result != domain.SignalApplied {
		t.Errorf("%+v", r)
	}
}
