package edge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"payledger/domain"
	"payledger/httpapi/wire"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth bounds how deep a body may be nested, the body itself included.
const MaxDepth = 128

// Member is one member of a body's object. Value is the raw JSON value, a
// part of the body.
type Member struct {
	Name  string
	Value jsontext.Value
}

// errNoObject says that a body is valid JSON but no object.
var errNoObject = domain.FieldErrors{{Code: domain.WrongType}}

// DecodeObject reads a body as one JSON object. Names are compared exactly, as
// unescaped. The error is a 400 problem when the bytes are not JSON as it is
// accepted here (RFC 8259 without duplicate names, byte order marks, lone
// surrogates, or nesting beyond MaxDepth), and errNoObject when they are and
// the value is no object.
func DecodeObject(body []byte) ([]Member, error) {
	switch {
	case !utf8.Valid(body) || bytes.HasPrefix(body, []byte("\ufeff")):
		return nil, wire.Problem{Code: domain.InvalidEncoding}
	case len(bytes.Trim(body, " \t\r\n")) == 0:
		return nil, wire.Problem{Code: domain.BodyRequired}
	}
	members, err := MembersOf(body)
	switch {
	case err != nil && !errors.As(err, new(domain.FieldErrors)):
		return nil, badJSON(body)
	case tooDeep(body):
		return nil, wire.Problem{
			Code:   domain.MalformedJSON,
			Detail: "The body is nested too deeply: 128 levels are accepted.",
		}
	}
	return members, err
}

// MembersOf answers the members of an object; their values are parts of it.
// The error is errNoObject for any other value, else what is wrong with the
// text.
func MembersOf(object []byte) ([]Member, error) {
	m := members{of: object}
	err := json.Unmarshal(object, &m) // its decoders are pooled: half the time of a new one
	if err == nil && m.all == nil {
		err = errNoObject
	}
	return m.all, err
}

// members are those of an object: all is nil for any other value.
type members struct {
	of  []byte
	all []Member
}

// UnmarshalJSONFrom reads the object.
func (m *members) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '{' {
		return in.SkipValue()
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	m.all = make([]Member, 0, 4)
	for in.PeekKind() == '"' {
		token, err := in.ReadToken()
		if err != nil {
			return err
		}
		name := token.String()
		value, err := in.ReadValue()
		if err != nil {
			return err
		}
		end := in.InputOffset()
		m.all = append(m.all, Member{Name: name, Value: m.of[end-int64(len(value)) : end : end]})
	}
	_, err := in.ReadToken() // }
	return err
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

// badJSON names what is wrong with a body that is not valid. Its bytes are
// known to be valid UTF-8; what a decoder that lets lone surrogates pass gets
// over, or gets past, is therefore an encoding error.
func badJSON(body []byte) error {
	at, err := fault(body)
	further, _ := fault(body, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	where := position(body, int(at))
	switch {
	case errors.Is(err, errSecondValue):
		return wire.Problem{Code: domain.MalformedJSON, Detail: "Something follows the JSON object, at " + where + ". Send exactly one object."}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return wire.Problem{Code: domain.DuplicateMember, Detail: "An object names the same member twice, the second time at " + where + ". Send each name once."}
	case further > at:
		return wire.Problem{Code: domain.InvalidEncoding, Detail: "A string has half of a surrogate pair, at " + where + ". Send both halves."}
	case errors.Is(err, io.ErrUnexpectedEOF):
		return wire.Problem{Code: domain.MalformedJSON, Detail: "The body ends before its JSON does, at " + where + ". Send exactly one JSON object."}
	}
	return wire.Problem{Code: domain.MalformedJSON, Detail: "The body is not valid JSON at " + where + ". Send exactly one JSON object as RFC 8259 defines it."}
}

// position names the place of a byte for people: lines and columns are counted
// from 1, columns in characters, bytes from 0.
func position(body []byte, offset int) string {
	before := body[:min(offset, len(body))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("line %d, column %d (byte %d)", line, column, len(before))
}

// errSecondValue says that a body goes on behind its first value.
var errSecondValue = errors.New("a second value follows the first")

// fault is where a decoder gives up a body, behind its end for nowhere, and why.
func fault(body []byte, how ...jsontext.Options) (at int64, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), how...)
	for ended := false; ; ended = dec.StackDepth() == 0 {
		end := dec.InputOffset()
		if _, err = dec.ReadToken(); err != nil {
			break
		}
		if ended {
			rest := bytes.TrimLeft(body[end:], " \t\r\n")
			return int64(len(body) - len(rest)), errSecondValue
		}
	}
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return syntax.ByteOffset, err
	}
	return int64(len(body)) + 1, err
}

// Text is the string that a valid JSON string stands for.
func Text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// TextsOf reads a valid array of strings.
func TextsOf(v jsontext.Value) (all []string, ok bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(v))
	if _, err := dec.ReadToken(); err != nil {
		return nil, false
	}
	for dec.PeekKind() == '"' {
		token, err := dec.ReadToken()
		if err != nil {
			return nil, false
		}
		all = append(all, token.String())
	}
	return all, dec.PeekKind() == ']'
}

// Compact is the value without insignificant white space; escapes, digits and
// the order of members stay as they are. It keeps nothing of the body.
func Compact(v []byte) domain.JSON {
	raw := jsontext.Value(v).Clone()
	if err := raw.Compact(); err != nil {
		return domain.JSON(v) // the decoder has found it valid before
	}
	return domain.JSON(raw)
}
