package bus

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

// Headers of an event, after the CloudEvents binding for NATS, binary mode.
// Position and stream sequence are extension attributes.
const (
	HeaderSpecVersion    = "ce-specversion"
	HeaderID             = "ce-id"
	HeaderSource         = "ce-source"
	HeaderType           = "ce-type"
	HeaderTime           = "ce-time"
	HeaderSubject        = "ce-subject"
	HeaderPosition       = "ce-position"       // in the log; equals the sequence in EVENTS
	HeaderStreamSequence = "ce-streamsequence" // within the payment or project
	HeaderTraceparent    = "ce-traceparent"    // CloudEvents distributed tracing extension; only with a trace
	HeaderContentType    = "content-type"
)

// EventMessage is a record as it is published: a CloudEvent in binary mode whose data are the
// stored bytes. JetStream accepts it only after the message of the position before.
func EventMessage(log domain.ID, r eventstore.Stored) (*nats.Msg, error) {
	typ, err := eventstore.TypeOf(r.Body)
	if err != nil {
		return nil, &eventstore.CorruptError{Position: r.Position, Reason: err.Error()}
	}
	for _, word := range [...]string{typ, r.Stream.Project, r.Stream.Kind, r.Stream.ID} {
		if strings.ContainsFunc(word, notInToken) {
			return nil, &eventstore.CorruptError{Position: r.Position, Reason: fmt.Sprintf("%q is in no subject or header", word)}
		}
	}
	at, _ := domain.IDTime(r.Commit).MarshalText()
	header := make(nats.Header, 11)
	for _, h := range [...][2]string{
		{jetstream.ExpectedLastSeqHeader, strconv.FormatUint(uint64(r.Position)-1, 10)},
		{HeaderType, typ},
		{HeaderID, r.Commit.String()},
		{HeaderStreamSequence, strconv.FormatUint(r.Sequence, 10)},
		{HeaderPosition, strconv.FormatUint(uint64(r.Position), 10)},
		{HeaderTime, string(at)},
		{HeaderSource, "/payledger/" + log.String() + "/" + r.Stream.Project},
		{HeaderSubject, r.Stream.Kind + "/" + r.Stream.ID},
		{HeaderTraceparent, string(eventstore.CauseOf(r.Body).Trace)},
		{HeaderSpecVersion, "1.0"},
		{HeaderContentType, "application/json"},
	} {
		if h[1] != "" {
			header[h[0]] = []string{h[1]}
		}
	}
	return &nats.Msg{Subject: EventSubject(r.Stream.Project, typ), Header: header, Data: r.Body}, nil
}
