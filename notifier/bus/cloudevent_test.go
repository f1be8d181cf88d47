package bus

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"

	"github.com/nats-io/nats.go"
)

// Blocks that were written in one place are as if each had its own, and say to
// the wire what they say to the client.
func TestHeadersOfEvents(t *testing.T) {
	t.Parallel()
	h, ids := eventHeader{log: domain.ID{1}}, domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	for i := range 5 {
		r := eventstore.Stored{
			Position: eventstore.Position(i*1000 + 7), Sequence: uint64(i + 1), Commit: ids.Next(),
			Stream: eventstore.PaymentStream([]string{"prj_a", "prj_bc"}[i/2%2], domain.ID{byte(i)}),
			Body:   fmt.Appendf(nil, `{"type":"t%d"}`, i),
		}
		subject, got, err := h.block(r)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("payledger.v1.events.%s.t%d", r.Stream.Project, i); subject != want {
			t.Errorf("event %d: subject %s, want %s", i, subject, want)
		}
		_, want, err := (&eventHeader{log: domain.ID{1}}).block(r)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("event %d: %q, want %q", i, got, want)
		}
		decoded, err := nats.DecodeHeadersMsg(got)
		if err != nil {
			t.Fatal(err)
		}
		for name := range decoded {
			if value := wireHeader(got).Get(name); value == "" || value != decoded.Get(name) {
				t.Errorf("event %d: %s is %q, want %q", i, name, value, decoded.Get(name))
			}
		}
		for _, absent := range []string{"ce", "e-id", "ce-ID", "NATS/1.0", "prj_a"} {
			if value := wireHeader(got).Get(absent); value != "" {
				t.Errorf("event %d: %s is %q", i, absent, value)
			}
		}
		if status := wireHeader(got).status(); status != "" {
			t.Errorf("event %d: status %q", i, status)
		}
	}
}

func TestEventTypeOfDamagedBodies(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "{", "[]", "{}", `{"type":7}`, `{"type":"a b"}`, `{"type":"a\r\nce-id: b"}`} {
		if _, err := EventMessage(domain.ID{}, eventstore.Stored{Position: 7, Body: []byte(body)}); !errors.As(err, new(*eventstore.CorruptError)) {
			t.Errorf("%q: %v", body, err)
		}
	}
}

// The type is found at its usual place only where the general reading finds
// it.
func TestUsualTypeIsTheType(t *testing.T) {
	t.Parallel()
	const good = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","version":1}`
	if typ, ok := usualType([]byte(good)); !ok || typ != domain.TypePaymentPaid {
		t.Errorf("%q, %t", typ, ok)
	}
	for i := range good {
		for _, b := range []byte(`"\\ {:,x`) {
			body := []byte(good)
			body[i] = b
			typ, ok := usualType(body)
			if !ok {
				continue
			}
			if want, err := EventType(append([]byte(" "), body...)); err != nil || typ != want {
				t.Errorf("%s: %q, want %q, %v", body, typ, want, err)
			}
		}
	}
}
