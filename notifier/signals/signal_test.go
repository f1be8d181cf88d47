package signals

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"payledger/domain"
	"payledger/notifier/bus"
	"payledger/notifier/bustest"
)

// TestOfAMessageLittleIsKept: neither its header, nor a body that says little in
// many bytes, nor the rest of one that says nothing.
func TestOfAMessageLittleIsKept(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Large": {strings.Repeat("x", 10_000)}}
	subject := bus.SignalSubject("bank", bustest.Project, domain.ID{1})
	says := domain.Signal{Route: "bank", Outcome: domain.OutcomeFailed, Reference: "r", Amount: 100, Currency: "RUB"}
	whole := bustest.Encode(t, says)
	timeless := bytes.Replace(whole, []byte("{"), []byte(`{"started_at":"9999-12-31T23:59:59-23:59",`), 1)
	for name, of := range map[string]struct {
		body, kept []byte
		cut        int
		malformed  bool
	}{
		"a signal":       {whole, whole, 0, false},
		"a long signal":  {append(bytes.Repeat([]byte(" "), 10_000), whole...), whole, 0, false},
		"no signal":      {[]byte("body"), []byte("body"), 0, true},
		"no such year":   {timeless, timeless, 0, true},
		"no long signal": {make([]byte, 10_000), make([]byte, maxParkedBody), 10_000, true},
	} {
		s := newSignal(subject, 1, time.Now(), of.body, header)
		if !bytes.Equal(s.body, of.kept) || s.cut != of.cut || (s.malformed != nil) != of.malformed || !of.malformed && s.says != says {
			t.Errorf("%s: %q, cut %d, %v", name, s.body, s.cut, s.malformed)
		}
		if &s.body[0] == &of.body[0] {
			t.Errorf("%s: the message's memory is kept", name)
		}
	}
}
