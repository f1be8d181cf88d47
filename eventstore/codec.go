package eventstore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/domain/deliveries"
	"payledger/domain/installation"
	"payledger/domain/projects"
	"payledger/domain/settlement"
)

// Codec encodes events to stored bytes and decodes them. The bytes are one line
// of JSON, which is exported unchanged:
//
//	{"id":…,"type":"payment.paid","version":1,"project":"prj_…","kind":"payment",
//	 "stream":…,"sequence":3,"at":"2026-11-20T10:19:02.400Z","data":{…}}
//
// with the members of a Cause before the data, if there is one.
//
// The line is written once, when the event is recorded, and never encoded
// again. Older versions of data are converted by lift before they are decoded. A
// Codec never changes and is safe for concurrent use.
type Codec struct {
	byName map[string]domain.EventType

	write, read json.Options
}

// envelope is the stored line; appendHead writes its members in this order.
// Unknown members are an error, so that decoding ignores nothing in a record.
type envelope struct {
	ID       domain.ID      `json:"id"`
	Type     string         `json:"type"`
	Version  int            `json:"version"`
	Project  string         `json:"project"`
	Kind     string         `json:"kind"`
	Stream   string         `json:"stream"`
	Sequence uint64         `json:"sequence"`
	At       domain.Instant `json:"at"`

	Actor string             `json:"actor"`
	Trace domain.Traceparent `json:"traceparent"`

	Data jsontext.Value `json:"data"`
}

// EventTypes are all types of events: those of payments, of the installation, of projects, of deliveries and
// of settlement reports.
func EventTypes() []domain.EventType {
	return slices.Concat(domain.Events(), installation.Events(), projects.Events(), deliveries.Events(), settlement.Events())
}

// NewCodec returns the codec for all EventTypes.
func NewCodec() *Codec {
	c := &Codec{
		byName: make(map[string]domain.EventType),
		// Keeps a merchant's payload byte for byte.
		write: json.JoinOptions(jsontext.PreserveRawStrings(true)),
		read:  json.JoinOptions(json.RejectUnknownMembers(true)),
	}
	for _, t := range EventTypes() {
		c.byName[t.Name] = t
	}
	return c
}

// Encode encodes the event as record number sequence of the stream. The event's
// time is the time in its id. Details that the event commits to are left out.
func (c *Codec) Encode(s Stream, sequence uint64, id domain.ID, why Cause, e domain.Event) ([]byte, error) {
	t, ok := c.byName[e.Type()]
	if !ok {
		return nil, fmt.Errorf("encoding event %q: not in the registry of events", e.Type())
	}
	stored := e
	if created, ok := e.(domain.PaymentCreated); ok && created.Details != nil {
		stored = created.WithoutDetails()
	}
	data, err := json.Marshal(stored, c.write)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", t.Name, err)
	}
	if err := why.check(); err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", t.Name, err)
	}
	line, err := appendHead(make([]byte, 0, headSize+len(why.Actor)+len(why.Trace)+len(data)), s, sequence, id, t)
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", t.Name, err)
	}
	return append(append(why.append(line), data...), '}'), nil
}

const (
	// headSize is more than most lines need besides their data and what their cause says.
	headSize = 288
	// lineType is where the type begins in a line that appendHead writes.
	lineType = len(`{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"`)
)

// appendHead appends a line up to its cause or data. If an envelope is marshalled instead,
// encoding a line takes 1.4 times as long: BenchmarkCodec.
func appendHead(b []byte, s Stream, sequence uint64, id domain.ID, t domain.EventType) ([]byte, error) {
	var err error
	text := func(member, value string) {
		var quoted error
		b, quoted = jsontext.AppendQuote(append(b, member...), value)
		err = cmp.Or(err, quoted)
	}
	b = append(append(append(b, `{"id":"`...), id.String()...), '"')
	text(`,"type":`, t.Name)
	b = strconv.AppendInt(append(b, `,"version":`...), int64(t.Version), 10)
	text(`,"project":`, s.Project)
	text(`,"kind":`, s.Kind)
	text(`,"stream":`, s.ID)
	b = strconv.AppendUint(append(b, `,"sequence":`...), sequence, 10)
	b, _ = domain.IDTime(id).AppendText(append(b, memberAt...)) // cannot fail
	return append(b, '"'), err
}

// Decode decodes a record's event, with its details. The error is a *CorruptError: the body is not
// an event this program knows, it belongs to another record, or the details are others.
func (c *Codec) Decode(r Stored) (domain.Event, error) {
	e, _, err := c.DecodeVersion(r)
	return e, err
}

// DecodeVersion is Decode and also returns the version in which the event is
// stored, which shows the rules of that time: see EventTypes.
func (c *Codec) DecodeVersion(r Stored) (domain.Event, int, error) {
	if _, opaque := r.OpaqueLeaf(); opaque {
		return Opaque{}, 0, nil
	}
	e, version, err := c.decode(r)
	if err != nil {
		return nil, 0, &CorruptError{Position: r.Position, Reason: err.Error()}
	}
	return e, version, nil
}

// Event returns r.Event if it is set, else the result of Decode. To check the
// stored bytes, call Decode.
func (c *Codec) Event(r Stored) (domain.Event, error) {
	if r.Event != nil {
		return r.Event, nil
	}
	return c.Decode(r)
}

func (c *Codec) decode(r Stored) (domain.Event, int, error) {
	e, version, err := c.decodeBody(r)
	if err == nil {
		e, err = c.attach(e, r)
	}
	return e, version, err
}

func (c *Codec) decodeBody(r Stored) (domain.Event, int, error) {
	if t, event := c.decodeOwn(r); event != nil {
		return t.Value(event), t.Version, nil
	}
	line := envelope{}
	if err := json.Unmarshal(r.Body, &line, c.read); err != nil {
		return nil, 0, err
	}
	if line.ID != r.Commit || line.Sequence != r.Sequence || line.At != domain.IDTime(r.Commit) ||
		(Stream{Project: line.Project, Kind: line.Kind, ID: line.Stream}) != r.Stream {
		return nil, 0, fmt.Errorf("the body is that of another record: %s/%s/%s, sequence %d",
			line.Project, line.Kind, line.Stream, line.Sequence)
	}
	if err := (Cause{Actor: line.Actor, Trace: line.Trace}).check(); err != nil {
		return nil, 0, err
	}
	t, ok := c.byName[line.Type]
	if !ok {
		return nil, 0, fmt.Errorf("unknown event type %q: written by a newer program?", line.Type)
	}
	lifted, err := lift(line.Type, line.Version, t.Version, line.Data)
	if err != nil {
		return nil, 0, err
	}
	if lifted.Kind() != '{' {
		return nil, 0, fmt.Errorf("event %s: its data is not an object", line.Type)
	}
	event := t.New()
	if err := json.Unmarshal(lifted, event, c.read); err != nil {
		return nil, 0, fmt.Errorf("event %s: %w", line.Type, err)
	}
	return t.Value(event), line.Version, nil
}

// decodeOwn decodes a line of a current version whose head is exactly the one that
// appendHead writes for the record. event is nil for any other line, and where there
// is an error, which decode finds too. Without it, decoding takes 1.5 times as long:
// BenchmarkCodec.
func (c *Codec) decodeOwn(r Stored) (t domain.EventType, event any) {
	if len(r.Body) < lineType {
		return t, nil
	}
	name, _, _ := bytes.Cut(r.Body[lineType:], []byte{'"'})
	t, ok := c.byName[string(name)]
	if !ok {
		return t, nil
	}
	var buf [headSize]byte
	head, err := appendHead(buf[:0], r.Stream, r.Sequence, r.Commit, t)
	rest, headed := bytes.CutPrefix(r.Body, head)
	_, rest, caused := cutCause(rest)
	rest, ended := bytes.CutSuffix(rest, []byte{'}'})
	if err != nil || !headed || !caused || !ended || jsontext.Value(rest).Kind() != '{' {
		return t, nil
	}
	event = t.New()
	if err := json.Unmarshal(rest, event, c.read); err != nil {
		return t, nil
	}
	return t, event
}

// Events decodes the records of a log as they come: the Event of each is set. It ends at the first
// error.
func (c *Codec) Events(log iter.Seq2[Stored, error]) iter.Seq2[Stored, error] {
	return func(yield func(Stored, error) bool) {
		for r, err := range log {
			if err == nil {
				r.Event, err = c.Event(r)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// TypeOf is the wire name in a stored line, where it follows the id, whether or not this program
// could decode the event.
func TypeOf(body []byte) (string, error) {
	const before, between = `{"id":"`, `","type":"`
	const id = len(domain.ID{}) // in bytes; 26 characters as text
	at := len(before) + (id*8+4)/5
	if len(body) >= at+len(between) && string(body[:len(before)]) == before && string(body[at:at+len(between)]) == between &&
		!bytes.ContainsAny(body[len(before):at], `"\\`) {
		if typ, _, ok := bytes.Cut(body[at+len(between):], []byte{'"'}); ok && bytes.IndexByte(typ, '\\') < 0 {
			return string(typ), nil
		}
	}
	return "", errors.New("the event does not begin with its id and its type")
}
