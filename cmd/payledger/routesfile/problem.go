package routesfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"payledger/httpapi/wire"

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

// value is a JSON value and its location in the file.
type value struct {
	raw     jsontext.Value
	at      int // offset of its first byte
	pointer jsontext.Pointer
}

// member is a member of an object, or an element of an array, which has no name.
type member struct {
	name string
	value
}

// open reads what is in an object or array of valid JSON.
func (v value) open() (all []member) {
	members, _ := wire.Members(v.raw) // the file was found valid
	for i, m := range members {
		token := m.Name
		if v.raw.Kind() == '[' {
			token = strconv.Itoa(i)
		}
		all = append(all, member{m.Name, value{m.Value, v.at + m.At, v.pointer.AppendToken(token)}})
	}
	return all
}

// find returns a member of an object, or the object where it has none of the
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

// problem is about the value at an offset of the file.
func (r *reading) problem(at int, pointer jsontext.Pointer, detail string) Problem {
	line, before := wire.Location(r.content, at)
	return Problem{Line: line, Column: len(before) + 1, Pointer: string(pointer), Detail: detail}
}

// read reads the content. Nothing after a syntax error can be parsed, so there is at most one.
func (r *reading) read() {
	_, err := wire.Members(r.content)
	fault, faulty := errors.AsType[*wire.Fault](err)
	if !faulty {
		raw := bytes.TrimLeft(r.content, " \t\r\n")
		r.file(value{raw: raw, at: len(r.content) - len(raw)})
		return
	}
	detail := "not JSON: " + fault.Error()
	switch {
	case errors.Is(fault, io.EOF):
		detail = "the file is empty"
	case errors.Is(fault, wire.ErrMore):
		detail = fault.Error()
	case errors.Is(fault, jsontext.ErrDuplicateName):
		detail = "this member is given twice"
	}
	r.problems = []Problem{r.problem(fault.At, fault.Pointer, detail)}
}
