package httpapi

import (
	"bytes"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// maxDepth bounds how deep a body may be nested, the body itself included.
const maxDepth = 128

// member is one member of a body's object. Value is the raw JSON value, a
// part of the body.
type member struct {
	name  string
	value jsontext.Value
}

// errNoObject says that a body is valid JSON but no object.
var errNoObject = domain.FieldErrors{{Code: domain.WrongType}}

// decodeObject reads a body as one JSON object, in one pass. Names are
// compared exactly, as unescaped. The error is a 400 problem when the bytes
// are not JSON as it is accepted here (RFC 8259 without duplicate names,
// byte order marks, lone surrogates, or nesting beyond maxDepth), and
// errNoObject when they are and the value is no object.
func decodeObject(body []byte) ([]member, error) {
	switch {
	case !utf8.Valid(body) || bytes.HasPrefix(body, []byte("\ufeff")):
		return nil, problem{Code: domain.InvalidEncoding}
	case len(bytes.TrimLeft(body, " \t\r\n")) == 0:
		return nil, problem{Code: domain.BodyRequired}
	}
	members, err := members(body)
	if err != nil && !errors.As(err, new(domain.FieldErrors)) {
		return nil, badJSON(body, err)
	}
	return members, err
}

var errTooDeep = problem{
	Code:   domain.MalformedJSON,
	Detail: "The body is nested too deeply: 128 levels are accepted.",
}

func members(body []byte) ([]member, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body))
	if dec.PeekKind() != '{' {
		if _, err := readValue(dec, body); err != nil {
			return nil, err
		}
		if err := atEnd(dec); err != nil {
			return nil, err
		}
		return nil, errNoObject
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	all := make([]member, 0, 4)
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		if m.value, err = readValue(dec, body); err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if _, err := dec.ReadToken(); err != nil {
		return nil, err
	}
	return all, atEnd(dec)
}

// readValue reads the next value and answers its bytes within body.
func readValue(dec *jsontext.Decoder, body []byte) (jsontext.Value, error) {
	depth := dec.StackDepth()
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	if depth+nesting(v) > maxDepth {
		return nil, errTooDeep
	}
	end := dec.InputOffset()
	return jsontext.Value(body[end-int64(len(v)) : end : end]), nil
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

func atEnd(dec *jsontext.Decoder) error {
	_, err := dec.ReadToken()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return problem{
			Code:   domain.MalformedJSON,
			Detail: "Something follows the JSON object. Send exactly one object.",
		}
	}
	return err
}

// badJSON names what is wrong with a body that the strict decoder refused.
// The bytes are known to be valid UTF-8; what a decoder that lets lone
// surrogates pass gets over, or gets past, is therefore an encoding error.
func badJSON(body []byte, err error) error {
	var p problem
	var syntax *jsontext.SyntacticError
	switch {
	case errors.As(err, &p):
		return p
	case errors.Is(err, jsontext.ErrDuplicateName):
		return problem{Code: domain.DuplicateMember}
	case errors.As(err, &syntax) && lenientOffset(body) > syntax.ByteOffset:
		return problem{Code: domain.InvalidEncoding}
	}
	return problem{Code: domain.MalformedJSON}
}

// lenientOffset is how far a decoder gets that allows lone surrogates.
func lenientOffset(body []byte) int64 {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	for {
		if _, err := dec.ReadToken(); err != nil {
			if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
				return syntax.ByteOffset
			}
			return int64(len(body)) + 1
		}
	}
}

// text is the string that a JSON string value stands for.
func text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}
