package wire

import (
	"bytes"
	"errors"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Member is a member of an object, or an element of an array, which has no name.
type Member struct {
	Name  string
	Value jsontext.Value // a part of the text
	At    int            // offset of the value in the text
}

// Members reads a text of one value, as RFC 8259 defines it: without duplicate names, which are
// compared exactly and as unescaped, byte order marks, invalid UTF-8 and lone surrogates. They
// are none where it is neither an object nor an array. The error is a *Fault.
func Members(text []byte) ([]Member, error) {
	m := members{text: text}
	if json.Unmarshal(text, &m) != nil { // its decoders are pooled: half the time of a new one
		return nil, faultOf(text)
	}
	return m.all, nil
}

type members struct {
	text []byte
	all  []Member
}

// UnmarshalJSONFrom reads the value.
func (m *members) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	kind := in.PeekKind()
	if kind != '{' && kind != '[' {
		return in.SkipValue()
	}
	if _, err := in.ReadToken(); err != nil {
		return err
	}
	m.all = make([]Member, 0, 4)
	for in.PeekKind() != kind+2 { // } or ]
		name := ""
		if kind == '{' {
			token, err := in.ReadToken()
			if err != nil {
				return err
			}
			name = token.String()
		}
		value, err := in.ReadValue()
		if err != nil {
			return err
		}
		end := int(in.InputOffset())
		at := end - len(value)
		m.all = append(m.all, Member{Name: name, Value: m.text[at:end:end], At: at})
	}
	_, err := in.ReadToken()
	return err
}

// Fault is what is wrong with a text. The text after it was not parsed.
type Fault struct {
	At        int              // offset
	Pointer   jsontext.Pointer // the value that is wrong, as far as it is known
	Surrogate bool             // half of a surrogate pair
	Err       error            // ErrMore, jsontext.ErrDuplicateName, io.EOF of an empty text, io.ErrUnexpectedEOF, or any other
}

// ErrMore: a text continues after its value.
var ErrMore = errors.New("there is more after the end of the JSON value")

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap is for errors.Is.
func (f *Fault) Unwrap() error { return f.Err }

// faultOf finds the fault of a text that has one.
func faultOf(text []byte) *Fault {
	f := faultFor(text)
	lenient := faultFor(text, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	f.Surrogate = lenient.At > f.At && !errors.Is(f, jsontext.ErrDuplicateName)
	return f
}

// faultFor is the fault that a decoder with options finds, ErrMore at the end of the
// text for none.
func faultFor(text []byte, how ...jsontext.Options) *Fault {
	d := jsontext.NewDecoder(bytes.NewBuffer(text), how...)
	_, err := d.ReadValue()
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return &Fault{At: int(syntax.ByteOffset), Pointer: syntax.JSONPointer, Err: syntax.Err}
	}
	end := int(d.InputOffset())
	if err != nil {
		return &Fault{At: end, Err: err}
	}
	rest := bytes.TrimLeft(text[end:], " \t\r\n")
	return &Fault{At: len(text) - len(rest), Err: ErrMore}
}

// Location is the line in which an offset is, from 1, and what of the line is before it.
func Location(text []byte, at int) (line int, before []byte) {
	text = text[:min(at, len(text))]
	return bytes.Count(text, []byte("\n")) + 1, text[bytes.LastIndexByte(text, '\n')+1:]
}

// Text is the string of a valid value.
func Text(v jsontext.Value) (string, bool) {
	if v.Kind() != '"' {
		return "", false
	}
	b, err := jsontext.AppendUnquote(nil, v)
	return string(b), err == nil
}

// Texts are the strings of a valid array that has nothing else.
func Texts(v jsontext.Value) (all []string, ok bool) {
	if v.Kind() != '[' {
		return nil, false
	}
	elements, err := Members(v)
	for _, e := range elements {
		s, ok := Text(e.Value)
		if !ok {
			return nil, false
		}
		all = append(all, s)
	}
	return all, err == nil
}

// Compact is a copy of the value without insignificant white space; escapes, digits
// and the order of members stay as they are.
func Compact(v []byte) []byte {
	raw := jsontext.Value(v).Clone()
	if err := raw.Compact(); err != nil {
		return v // it is valid
	}
	return raw
}
