package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth bounds how deep a body may be nested, the body itself included.
const MaxDepth = 128

// DecodeObject reads a body as one JSON object. The error is a 400 problem when
// the bytes are not JSON as wire takes it, or nested beyond MaxDepth, and a
// domain.FieldErrors of the body itself when the value is no object.
func DecodeObject(body []byte) ([]wire.Member, error) {
	switch {
	case !utf8.Valid(body) || bytes.HasPrefix(body, []byte("\ufeff")):
		return nil, wire.Problem{Code: domain.InvalidEncoding}
	case len(bytes.Trim(body, " \t\r\n")) == 0:
		return nil, wire.Problem{Code: domain.BodyRequired}
	}
	members, err := wire.Members(body)
	if fault, ok := errors.AsType[*wire.Fault](err); ok {
		return nil, badJSON(body, fault)
	}
	if tooDeep(body) {
		return nil, wire.Problem{
			Code:   domain.MalformedJSON,
			Detail: "The body is nested too deeply: 128 levels are accepted.",
		}
	}
	if jsontext.Value(body).Kind() != '{' {
		return nil, Fault(domain.WrongType)
	}
	return members, nil
}

// tooDeep reports whether a valid body is nested beyond MaxDepth.
func tooDeep(body []byte) bool {
	if bytes.Count(body, []byte("{"))+bytes.Count(body, []byte("[")) <= MaxDepth {
		return false
	}
	for dec := jsontext.NewDecoder(bytes.NewBuffer(body)); ; {
		if _, err := dec.ReadToken(); err != nil {
			return false
		}
		if dec.StackDepth() > MaxDepth {
			return true
		}
	}
}

// badJSON names what is wrong with a body of valid UTF-8. Lines and columns are
// counted from 1, columns in characters, bytes from 0.
func badJSON(body []byte, f *wire.Fault) error {
	at := min(f.At, len(body))
	if ahead := bytes.TrimRight(body[:at], " \t\r\n"); at < len(body) && bytes.HasSuffix(ahead, []byte(",")) && (body[at] == '}' || body[at] == ']') {
		at = len(ahead) - 1 // nothing follows the comma: it is what should not be there
	}
	line, before := wire.Location(body, at)
	where := fmt.Sprintf("line %d, column %d (byte %d)", line, utf8.RuneCount(before)+1, at)
	switch {
	case errors.Is(f, wire.ErrMore):
		return wire.Problem{Code: domain.MalformedJSON, Detail: "Something follows the JSON object, at " + where + ". Send exactly one object."}
	case errors.Is(f, jsontext.ErrDuplicateName):
		return wire.Problem{Code: domain.DuplicateMember, Detail: "An object names the same member twice, the second time at " + where + ". Send each name once."}
	case f.Surrogate:
		return wire.Problem{Code: domain.InvalidEncoding, Detail: "A string has half of a surrogate pair, at " + where + ". Send both halves."}
	case errors.Is(f, io.ErrUnexpectedEOF):
		return wire.Problem{Code: domain.MalformedJSON, Detail: "The body ends before its JSON does, at " + where + ". Send exactly one JSON object."}
	}
	return wire.Problem{Code: domain.MalformedJSON, Detail: "The body is not valid JSON at " + where + ". Send exactly one JSON object as RFC 8259 defines it."}
}
