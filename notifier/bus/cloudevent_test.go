package bus

import (
	"bytes"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"payledger/domain"
	"payledger/eventstore"
)

func TestHeadersOfEvents(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	log, ids := domain.ID{1}, domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	r := eventstore.Stored{
		Position: 7, Sequence: 2, Commit: ids.Next(), Stream: eventstore.PaymentStream("prj_a", domain.ID{3}),
		Body: []byte(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","at":"2026-11-20T10:19:02.400Z","traceparent":"` + trace + `","data":{}}`),
	}
	msg, err := EventMessage(log, r)
	if err != nil {
		t.Fatal(err)
	}
	if want := "payledger.v1.events.prj_a.payment.paid"; msg.Subject != want || !bytes.Equal(msg.Data, r.Body) {
		t.Errorf("subject %s, want %s; %q", msg.Subject, want, msg.Data)
	}
	for name, want := range map[string]string{
		"Nats-Expected-Last-Sequence": "6", HeaderType: "payment.paid", HeaderID: r.Commit.String(), HeaderStreamSequence: "2",
		HeaderPosition: "7", HeaderSource: "/payledger/" + log.String() + "/prj_a", HeaderSubject: "payment/" + domain.ID{3}.String(),
		HeaderSpecVersion: "1.0", HeaderContentType: "application/json", HeaderTraceparent: trace,
		HeaderTime: domain.IDTime(r.Commit).String(),
	} {
		if got := msg.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
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
