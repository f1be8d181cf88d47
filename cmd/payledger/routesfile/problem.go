package routesfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Problem is something wrong in a routes file.
type Problem struct {
	Line    int    `json:"line,omitzero"`    // from 1; 0: the file as a whole
	Column  int    `json:"column,omitzero"`  // in bytes, from 1
	Pointer string `json:"pointer,omitzero"` // RFC 6901: the member or element
	Detail  string `json:"detail"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Detail
	}
	if p.Pointer == "" { // the whole value
		return fmt.Sprintf("%d:%d: %s", p.Line, p.Column, p.Detail)
	}
	return fmt.Sprintf("%d:%d: %s: %s", p.Line, p.Column, p.Pointer, p.Detail)
}

// Error is all that is wrong with a routes file, in the order of the file.
type Error struct {
	File     string
	Problems []Problem
}

// Error is one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.File + ": " + p.String()
		if p.Line != 0 {
			lines[i] = e.File + ":" + p.String()
		}
	}
	return strings.Join(lines, "\n")
}

// value is a JSON value and where in the file it stands.
type value struct {
	raw     jsontext.Value
	at      int64 // offset of its first byte
	pointer jsontext.Pointer
}

// member is a member of an object.
type member struct {
	name string
	value
}

// open reads what is in an object or array of valid JSON; names of an array's
// elements are empty.
func (v value) open() []member {
	var all []member
	d := jsontext.NewDecoder(bytes.NewReader(v.raw))
	named := v.raw.Kind() == '{'
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	for d.PeekKind() != '}' && d.PeekKind() != ']' {
		var m member
		if named {
			name, err := d.ReadToken()
			if err != nil {
				return nil
			}
			m.name = name.String()
		}
		raw, err := d.ReadValue()
		if err != nil {
			return nil
		}
		m.raw = raw.Clone()
		m.at = v.at + d.InputOffset() - int64(len(raw))
		m.pointer = v.pointer + d.StackPointer()
		all = append(all, m)
	}
	return all
}

// find answers a member of an object, or the object where it has none of the
// name, with the pointer of the member.
func (v value) find(name string) value {
	for _, m := range v.open() {
		if m.name == name {
			return m.value
		}
	}
	v.pointer = v.pointer.AppendToken(name)
	return v
}

// place is where in the content an offset is.
func place(content []byte, at int64) (line, column int) {
	before := content[:min(at, int64(len(content)))]
	return bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')
}

// parse reads a file of one JSON value. Nothing behind a fault of syntax can be
// understood, so there is one problem at most.
func parse(content []byte) (value, *Problem) {
	d := jsontext.NewDecoder(bytes.NewReader(content))
	raw, err := d.ReadValue()
	end := d.InputOffset()
	if err == nil {
		rest := bytes.TrimLeft(content[end:], " \t\r\n")
		if len(rest) == 0 {
			return value{raw: raw.Clone(), at: end - int64(len(raw))}, nil
		}
		p := Problem{Detail: "there is more behind the end of the JSON value"}
		p.Line, p.Column = place(content, int64(len(content)-len(rest)))
		return value{}, &p
	}
	p := Problem{Detail: "not JSON: " + err.Error()}
	if errors.Is(err, io.EOF) {
		p.Detail = "the file is empty"
	}
	p.Line, p.Column = place(content, end)
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		p.Line, p.Column = place(content, syntax.ByteOffset)
		p.Pointer, p.Detail = string(syntax.JSONPointer), "not JSON: "+syntax.Err.Error()
		if errors.Is(err, jsontext.ErrDuplicateName) {
			p.Detail = "this member is given twice"
		}
	}
	return value{}, &p
}
