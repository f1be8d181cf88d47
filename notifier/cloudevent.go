package notifier

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

// Headers of an event, after the CloudEvents binding for NATS, binary mode.
// Position and stream sequence are extension attributes.
const (
	headerSpecVersion    = "ce-specversion"
	headerID             = "ce-id"
	headerSource         = "ce-source"
	headerType           = "ce-type"
	headerTime           = "ce-time"
	headerSubject        = "ce-subject"
	headerPosition       = "ce-position"       // in the log; equals the sequence in EVENTS
	headerStreamSequence = "ce-streamsequence" // within the payment or project
	headerContentType    = "content-type"
)

// eventMessage is the record as it is published: a CloudEvent in binary mode
// whose data are the stored bytes. It is accepted only as the message after
// the one at the position before.
func eventMessage(log domain.ID, r eventstore.Stored) (*nats.Msg, error) {
	typ, err := eventType(r.Body)
	if err != nil {
		return nil, &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	return &nats.Msg{
		Subject: EventSubject(r.Stream),
		Header: nats.Header{
			headerSpecVersion:               {"1.0"},
			headerID:                        {r.Commit.String()},
			headerSource:                    {"/payledger/" + log.String() + "/" + r.Stream.Project},
			headerType:                      {typ},
			headerTime:                      {domain.IDTime(r.Commit).String()},
			headerSubject:                   {r.Stream.Kind + "/" + r.Stream.ID},
			headerPosition:                  {strconv.FormatUint(uint64(r.Position), 10)},
			headerStreamSequence:            {strconv.FormatUint(r.Sequence, 10)},
			headerContentType:               {"application/json"},
			jetstream.ExpectedStreamHeader:  {EventsStream},
			jetstream.ExpectedLastSeqHeader: {strconv.FormatUint(uint64(r.Position)-1, 10)},
		},
		Data: r.Body,
	}, nil
}

// eventType reads the wire name of a stored event, which stands near its
// beginning. The relay passes on what is stored, whether or not this program
// could decode it.
func eventType(body []byte) (string, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(body))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return "", errors.New("the event is not a JSON object")
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", fmt.Errorf("the event is not JSON: %w", err)
		}
		if name.String() != "type" {
			if err := d.SkipValue(); err != nil {
				return "", fmt.Errorf("the event is not JSON: %w", err)
			}
			continue
		}
		typ, err := d.ReadToken()
		if err != nil || typ.Kind() != '"' {
			return "", errors.New("the event's type is not a string")
		}
		return typ.String(), nil
	}
	return "", errors.New("the event has no type")
}
