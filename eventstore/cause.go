package eventstore

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"payledger/domain"
)

// Cause is the actor and the trace of an event. They are in the event's line, before the data, as
// the members actor and traceparent, each only if it is set: so the Merkle tree covers them, and an
// exported or published event has them. Decide never sees it.
type Cause struct {
	// Actor is "operator:" and a name, the id of an API key, or "retention" for what a project keeps for
	// some days. Events without one
	// are those of the program itself, of customers and of providers.
	Actor string
	// Trace is that of the request. An event without one gets that of the event
	// before it in its stream: so what follows from a request is in its trace.
	Trace domain.Traceparent
}

// MaxActor is the length of an actor, in bytes.
const MaxActor = 96

const operatorPrefix = "operator:"

// OperatorActor is the actor of a person at the administration. The error says
// what is wrong with the name.
func OperatorActor(name string) (string, error) {
	actor := operatorPrefix + name
	if name == "" || !validActor(actor) {
		return "", fmt.Errorf("the name %q must have 1 to %d bytes of printable characters, without quotes and backslashes", name, MaxActor-len(operatorPrefix))
	}
	return actor, nil
}

// validActor reports whether s needs no escaping in JSON.
func validActor(s string) bool {
	return s != "" && len(s) <= MaxActor && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) || r == '"' || r == '\\' })
}

func (c Cause) check() error {
	if c.Actor != "" && !validActor(c.Actor) {
		return fmt.Errorf("the actor %q is none", c.Actor)
	}
	if parsed, ok := domain.ParseTraceparent(string(c.Trace)); c.Trace != "" && (!ok || parsed != c.Trace) {
		return fmt.Errorf("the traceparent %q is none", c.Trace)
	}
	return nil
}

const (
	memberAt    = `,"at":"`
	memberActor = `,"actor":"`
	memberTrace = `,"traceparent":"`
	memberData  = `,"data":`

	timeSize = len("2026-11-20T10:19:02.400Z")
)

// append appends the members and the beginning of the one after them.
func (c Cause) append(line []byte) []byte {
	if c.Actor != "" {
		line = append(append(append(line, memberActor...), c.Actor...), '"')
	}
	if c.Trace != "" {
		line = append(append(append(line, memberTrace...), c.Trace...), '"')
	}
	return append(line, memberData...)
}

// cutCause reads what append wrote; ok is false for anything else.
func cutCause(line []byte) (c Cause, data []byte, ok bool) {
	if data, ok = bytes.CutPrefix(line, []byte(memberData)); ok {
		return c, data, true
	}
	var actor, trace []byte
	if line, ok = bytes.CutPrefix(line, []byte(memberActor)); ok {
		if actor, line, ok = bytes.Cut(line, []byte{'"'}); !ok || len(actor) == 0 {
			return Cause{}, nil, false
		}
	}
	if line, ok = bytes.CutPrefix(line, []byte(memberTrace)); ok {
		if trace, line, ok = bytes.Cut(line, []byte{'"'}); !ok || len(trace) == 0 {
			return Cause{}, nil, false
		}
	}
	c = Cause{Actor: string(actor), Trace: domain.Traceparent(trace)}
	data, ok = bytes.CutPrefix(line, []byte(memberData))
	if !ok || c.check() != nil {
		return Cause{}, nil, false
	}
	return c, data, true
}

// CauseOf reads the cause of a stored event, wherever this program wrote it; the
// zero value if it has none. An unescaped quote ends a string in JSON, so the first
// memberAt in a line is no part of a name before it.
func CauseOf(body []byte) Cause {
	i := bytes.Index(body, []byte(memberAt))
	if end := i + len(memberAt) + timeSize; i >= 0 && end < len(body) && body[end] == '"' {
		c, _, _ := cutCause(body[end+1:])
		return c
	}
	return Cause{}
}
