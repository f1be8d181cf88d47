package notifier

import (
	"strconv"
	"testing"
	"time"

	ce "github.com/cloudevents/sdk-go/v2"

	"github.com/nats-io/nats.go/jetstream"

	"payledger/notifier/bus"
	"payledger/notifier/bustest"
)

// TestEventsAreCloudEvents lets the CloudEvents SDK judge the headers.
func TestEventsAreCloudEvents(t *testing.T) {
	t.Parallel()
	b := bustest.NewBook(t)
	b.Register(t)
	b.Routed(t)
	for _, r := range b.Records(t) {
		msg, err := bus.EventMessage(b.LogID, r)
		if err != nil {
			t.Fatal(err)
		}
		e := ce.NewEvent()
		for name, values := range msg.Header {
			if len(values) != 1 {
				t.Errorf("%s: %q", name, values)
			}
			switch value := values[0]; name {
			case bus.HeaderContentType:
				e.SetDataContentType(value)
			case bus.HeaderSpecVersion:
				e.SetSpecVersion(value)
			case bus.HeaderID:
				e.SetID(value)
			case bus.HeaderSource:
				e.SetSource(value)
			case bus.HeaderType:
				e.SetType(value)
			case bus.HeaderSubject:
				e.SetSubject(value)
			case bus.HeaderTime:
				at, err := time.Parse(time.RFC3339Nano, value)
				if err != nil {
					t.Error(err)
				}
				e.SetTime(at)
			case bus.HeaderPosition, bus.HeaderStreamSequence:
				e.SetExtension(name[len("ce-"):], value)
			case jetstream.ExpectedLastSeqHeader:
			default:
				t.Errorf("header %s", name)
			}
		}
		if err := e.SetData(e.DataContentType(), msg.Data); err != nil {
			t.Error(err)
		}
		if err := e.Validate(); err != nil {
			t.Errorf("position %d: %v", r.Position, err)
		}
		event, err := b.Codec.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type() != event.Type() || e.ID() != r.Commit.String() || !e.Time().Equal(r.At) ||
			e.Extensions()["position"] != strconv.FormatUint(uint64(r.Position), 10) ||
			e.Extensions()["streamsequence"] != strconv.FormatUint(r.Sequence, 10) || string(e.Data()) != string(r.Body) {
			t.Errorf("position %d: %v", r.Position, e)
		}
	}
}
