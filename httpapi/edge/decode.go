package edge

import (
	"bytes"
	"errors"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds how deep a body may be nested, the body itself included.
const MaxDepth = 128

// member is one member of a body's object. Value is the raw JSON value, a
// part of the body.
type Member struct {
	Name  string
	Value jsontext.Value
}

// errNoObject says that a body is valid JSON but no object.
var errNoObject = domain.FieldErrors{{Code: domain.WrongType}}

// decodeObject reads a body as one JSON object. Names are compared exactly, as
// unescaped. The error is a 400 problem when the bytes are not JSON as it is
// accepted here (RFC 8259 without duplicate names, byte order marks, lone
// surrogates, or nesting beyond maxDepth), and errNoObject when they are and
// the value is no object.
func DecodeObject(body []byte) ([]Member, error) {
	v := jsontext.Value(body)
	switch {
	case !utf8.Valid(body) || bytes.HasPrefix(body, []byte("\ufeff")):
		return nil, wire.Problem{Code: domain.InvalidEncoding}
	case space(body) == len(body):
		return nil, wire.Problem{Code: domain.BodyRequired}
	case !v.IsValid():
		return nil, badJSON(body)
	case nesting(v) > MaxDepth:
		return nil, wire.Problem{
			Code:   domain.MalformedJSON,
			Detail: "The body is nested too deeply: 128 levels are accepted.",
		}
	case v.Kind() != '{':
		return nil, errNoObject
	}
	return MembersOf(v), nil
}

// membersOf answers the members of a valid object.
func MembersOf(object jsontext.Value) []Member {
	all := make([]Member, 0, 4)
	rest := object[space(object)+1:]
	next := func() jsontext.Value {
		start := space(rest)
		end := start + extent(rest[start:])
		v := rest[start:end:end]
		rest = rest[end:]
		rest = rest[space(rest):]
		return v
	}
	for rest = rest[space(rest):]; rest[0] != '}'; {
		name, _ := Text(next())
		rest = rest[1:] // the colon
		all = append(all, Member{Name: name, Value: next()})
		if rest[0] == ',' {
			rest = rest[1:]
		}
	}
	return all
}

// space is how many bytes of white space b begins with.
func space(b []byte) int {
	for i, c := range b {
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return i
		}
	}
	return len(b)
}

// extent is how many bytes the value has that b begins with. It is valid.
func extent(b []byte) int {
	level, inString := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case inString && c == '\\':
			i++
			continue
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
		case level == 0 && (c == ',' || c == '}' || c == ']' || c <= ' '):
			return i
		case c == '}' || c == ']':
			level--
		default:
			continue
		}
		if level == 0 && !inString {
			return i + 1
		}
	}
	return len(b)
}

// nesting counts the levels of objects and arrays in a valid value.
func nesting(v jsontext.Value) int {
	level, deepest, inString := 0, 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}

// spaced reports whether a valid value has white space outside of strings.
func spaced(v []byte) bool {
	inString := false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case c <= ' ' && !inString:
			return true
		}
	}
	return false
}

// badJSON names what is wrong with a body that is not valid. Its bytes are
// known to be valid UTF-8; what a decoder that lets lone surrogates pass gets
// over, or gets past, is therefore an encoding error.
func badJSON(body []byte) error {
	at, err := fault(body)
	further, _ := fault(body, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	var p wire.Problem
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, jsontext.ErrDuplicateName):
		return wire.Problem{Code: domain.DuplicateMember}
	case further > at:
		return wire.Problem{Code: domain.InvalidEncoding}
	}
	return wire.Problem{Code: domain.MalformedJSON}
}

// fault is where a decoder gives up a body, behind its end for nowhere, and
// why: a second value behind the first is a problem of its own.
func fault(body []byte, how ...jsontext.Options) (at int64, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), how...)
	for ended := false; ; ended = dec.StackDepth() == 0 {
		if _, err = dec.ReadToken(); err != nil {
			break
		}
		if ended {
			err = wire.Problem{
				Code:   domain.MalformedJSON,
				Detail: "Something follows the JSON object. Send exactly one object.",
			}
			break
		}
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntax.ByteOffset, err
	}
	return int64(len(body)) + 1, err
}

// text is the string that a valid JSON string stands for.
func Text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	if bytes.IndexByte(v, '\\') < 0 {
		return string(v[1 : len(v)-1]), true
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// textsOf reads an array of strings.
func TextsOf(v jsontext.Value) ([]string, bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	var all []string
	for rest := range elements(v) {
		s, ok := Text(rest)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, true
}

// elements yields the elements of an array that is known to be valid.
func elements(v jsontext.Value) func(func(jsontext.Value) bool) {
	return func(yield func(jsontext.Value) bool) {
		dec := jsontext.NewDecoder(bytes.NewReader(v))
		if _, err := dec.ReadToken(); err != nil {
			return
		}
		for dec.PeekKind() != ']' {
			e, err := dec.ReadValue()
			if err != nil || !yield(e) {
				return
			}
		}
	}
}

// compact is the value without insignificant white space; escapes, digits and
// the order of members stay as they are. It keeps nothing of the body.
func Compact(v []byte) domain.JSON {
	if !spaced(v) {
		return bytes.Clone(v)
	}
	raw := jsontext.Value(v).Clone()
	if err := raw.Compact(); err != nil {
		return domain.JSON(v) // the decoder has found it valid before
	}
	return domain.JSON(raw)
}
