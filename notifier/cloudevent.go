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

// eventMessage is a record as it is published.
func eventMessage(log domain.ID, r eventstore.Stored) (*nats.Msg, error) {
	return new(eventEnvelope).message(log, r, "")
}

// eventEnvelope makes messages of events, each in the place of the one before:
// every event comes this way, and nearly all need a message only until it is
// written to the connection.
type eventEnvelope struct {
	msg    nats.Msg
	values [13]string
	source struct{ project, value string } // of the record before
}

// message is the record as it is published: a CloudEvent in binary mode whose
// data are the stored bytes. It is accepted only as the message after the one
// at the position before, and, if before is not empty, after the one with that
// id. The next call changes it.
func (e *eventEnvelope) message(log domain.ID, r eventstore.Stored, before string) (*nats.Msg, error) {
	typ, err := eventType(r.Body)
	if err != nil {
		return nil, &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	if e.source.value == "" || e.source.project != r.Stream.Project {
		e.source.project, e.source.value = r.Stream.Project, "/payledger/"+log.String()+"/"+r.Stream.Project
	}
	id := r.Commit.String()
	headers := [len(e.values)]struct{ name, value string }{
		{headerSpecVersion, "1.0"},
		{headerID, id},
		{headerSource, e.source.value},
		{headerType, typ},
		{headerTime, domain.IDTime(r.Commit).String()},
		{headerSubject, r.Stream.Kind + "/" + r.Stream.ID},
		{headerPosition, strconv.FormatUint(uint64(r.Position), 10)},
		{headerStreamSequence, strconv.FormatUint(r.Sequence, 10)},
		{headerContentType, "application/json"},
		{jetstream.ExpectedStreamHeader, EventsStream},
		{jetstream.MsgIDHeader, id},
		{jetstream.ExpectedLastSeqHeader, strconv.FormatUint(uint64(r.Position)-1, 10)},
		{jetstream.ExpectedLastMsgIDHeader, before},
	}
	if e.msg.Header == nil {
		e.msg.Header = make(nats.Header, len(headers))
		for i, h := range headers {
			e.msg.Header[h.name] = e.values[i : i+1 : i+1]
		}
	}
	for i, h := range headers {
		e.values[i] = h.value
	}
	if last := len(headers) - 1; before != "" {
		e.msg.Header[headers[last].name] = e.values[last:]
	} else {
		delete(e.msg.Header, headers[last].name)
	}
	e.msg.Subject, e.msg.Data = EventSubject(r.Stream), r.Body
	return &e.msg, nil
}

// eventType reads the wire name of a stored event, which stands near its
// beginning. The relay passes on what is stored, whether or not this program
// could decode it.
func eventType(body []byte) (string, error) {
	if typ, ok := usualType(body); ok {
		return typ, nil
	}
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

// usualType reads the wire name where the codec writes it: after the id.
func usualType(body []byte) (string, bool) {
	const before, between = `{"id":"`, `","type":"`
	const id = len(domain.ID{}) // in bytes; 26 characters as text
	at := len(before) + (id*8+4)/5
	if len(body) < at+len(between) || string(body[:len(before)]) != before || string(body[at:at+len(between)]) != between ||
		bytes.ContainsAny(body[len(before):at], `"\\`) {
		return "", false
	}
	typ, _, ok := bytes.Cut(body[at+len(between):], []byte{'"'})
	return string(typ), ok && bytes.IndexByte(typ, '\\') < 0
}
