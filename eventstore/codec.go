package eventstore

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// Codec turns events into stored bytes and back. The bytes are one line of
// JSON that stands alone when exported:
//
//	{"id":…,"type":"payment.paid","version":1,"project":"prj_…","kind":"payment",
//	 "stream":…,"sequence":3,"at":"2026-11-20T10:19:02.400Z","data":{…}}
//
// The line is written once, when the event is recorded, and never encoded
// again. Older versions of data are lifted by the upcasters before they are
// decoded. A Codec never changes and is safe for concurrent use.
type Codec struct {
	byName map[string]domain.EventType
	upcast map[version]Upcaster

	rooms sync.Pool // of *[]byte, to write a record in
}

// envelope is the stored line, with its data still to be encoded or as it was
// found. Members are in the order in which they are written; unknown ones are
// an error, so that nothing in a record is ignored.
type envelope[D any] struct {
	ID       domain.ID      `json:"id"`
	Type     string         `json:"type"`
	Version  int            `json:"version"`
	Project  string         `json:"project"`
	Kind     string         `json:"kind"`
	Stream   string         `json:"stream"`
	Sequence uint64         `json:"sequence"`
	At       domain.Instant `json:"at"`
	Data     D              `json:"data"`
}

// NewCodec returns the codec of every event in domain.Events.
func NewCodec() *Codec {
	c := &Codec{
		byName: make(map[string]domain.EventType), upcast: make(map[version]Upcaster),
		rooms: sync.Pool{New: func() any { return new([]byte) }},
	}
	for _, t := range domain.Events() {
		c.byName[t.Name] = t
	}
	for _, u := range upcasters() {
		c.upcast[version{u.Type, u.From}] = u
	}
	return c
}

// Encode writes the event that becomes the sequence-th record of the stream.
// The event's time is the id's.
func (c *Codec) Encode(s Stream, sequence uint64, id domain.ID, e domain.Event) ([]byte, error) {
	t, ok := c.byName[e.Type()]
	if !ok {
		return nil, fmt.Errorf("encoding event %q: not in the registry of events", e.Type())
	}
	if b, ok := c.plain(s, sequence, id, e); ok {
		return b, nil
	}
	return encode(s, sequence, id, t, e)
}

// plain answers the record's line if all of it is plain. It is kept for long,
// so it gets no more room than it needs.
func (c *Codec) plain(s Stream, sequence uint64, id domain.ID, e domain.Event) (_ []byte, ok bool) {
	room := c.rooms.Get().(*[]byte)
	defer c.rooms.Put(room)
	if *room, ok = appendPlain((*room)[:0], s, sequence, id, c.byName[e.Type()], e); !ok {
		return nil, false
	}
	return bytes.Clone(*room), true
}

// record is what Encode writes, with the event where it is known to read back
// as it is.
func (c *Codec) record(s Stream, last Stored, id domain.ID, e domain.Event) (r Record, err error) {
	r = Record{Stream: s, Expect: last.Position}
	var plain bool
	if r.Body, plain = c.plain(s, last.Sequence+1, id, e); plain {
		r.Event = e
		return r, nil
	}
	r.Body, err = c.Encode(s, last.Sequence+1, id, e)
	return r, err
}

// encode is the general encoder, which says how a record is written.
func encode(s Stream, sequence uint64, id domain.ID, t domain.EventType, e domain.Event) ([]byte, error) {
	// PreserveRawStrings keeps a merchant's payload byte for byte.
	b, err := json.Marshal(envelope[domain.Event]{
		ID: id, Type: t.Name, Version: t.Version, Project: s.Project, Kind: s.Kind, Stream: s.ID,
		Sequence: sequence, At: domain.IDTime(id), Data: e,
	}, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encoding event %q: %w", t.Name, err)
	}
	return b, nil
}

// Decode reads a record's event. The error is a *CorruptError: the body is
// not an event this program knows, or does not belong where it stands.
func (c *Codec) Decode(r Stored) (domain.Event, error) {
	if e, ok := c.readPlain(r); ok {
		return e, nil
	}
	e, err := c.decode(r)
	if err != nil {
		return nil, &CorruptError{Position: r.Position, Reason: err.Error()}
	}
	return e, nil
}

// Version is the version in which the record's event is stored, 0 if the body is
// malformed. It shows under which rules the event was recorded: see
// domain.Events.
func (c *Codec) Version(r Stored) int {
	p := plain{rest: r.Body}
	p.word(`{"id":`)
	p.text()
	p.word(`,"type":`)
	p.text()
	p.word(`,"version":`)
	if version := p.number(); !p.bad {
		return int(version)
	}
	var env envelope[jsontext.Value]
	if json.Unmarshal(r.Body, &env) != nil {
		return 0
	}
	return env.Version
}

// Event is the record's event: the one that came with it, as long as it is in
// memory, else what Decode answers. Who checks what is stored calls Decode.
func (c *Codec) Event(r Stored) (domain.Event, error) {
	if r.Event != nil {
		return r.Event, nil
	}
	return c.Decode(r)
}

// decode is the general decoder, which says what a record is.
func (c *Codec) decode(r Stored) (domain.Event, error) {
	var env envelope[jsontext.Value]
	if err := json.Unmarshal(r.Body, &env, json.RejectUnknownMembers(true)); err != nil {
		return nil, err
	}
	if env.ID != r.Commit || env.Sequence != r.Sequence || env.At != domain.IDTime(r.Commit) ||
		(Stream{Project: env.Project, Kind: env.Kind, ID: env.Stream}) != r.Stream {
		return nil, fmt.Errorf("the body is that of another record: %s/%s/%s, sequence %d",
			env.Project, env.Kind, env.Stream, env.Sequence)
	}
	t, ok := c.byName[env.Type]
	if !ok {
		return nil, fmt.Errorf("unknown event type %q: written by a newer program?", env.Type)
	}
	data, err := c.lift(env.Type, env.Version, t.Version, env.Data)
	if err != nil {
		return nil, err
	}
	if data.Kind() != '{' {
		return nil, fmt.Errorf("event %s: its data is not an object", env.Type)
	}
	p := t.New()
	if err := json.Unmarshal(data, p, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("event %s: %w", env.Type, err)
	}
	return t.Value(p), nil
}
