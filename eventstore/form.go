package eventstore

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json"
)

// Form is the type of an event and the version in which it is written.
type Form struct {
	Type    string
	Version int
}

func (f Form) String() string { return fmt.Sprintf("%s, version %d", f.Type, f.Version) }

// FormOf reads an event's form from its line; ok is false if it is not the line of an event.
func FormOf(body []byte) (f Form, ok bool) {
	if len(body) > lineType {
		name, rest, _ := bytes.Cut(body[lineType:], []byte{'"'})
		rest, headed := bytes.CutPrefix(rest, []byte(`,"version":`))
		digits, _, _ := bytes.Cut(rest, []byte{','})
		if n, err := strconv.Atoi(string(digits)); err == nil && headed && !bytes.Contains(name, []byte{'\\'}) {
			return Form{string(name), n}, n > 0
		}
	}
	var line struct { // a newer program may write the members in another order
		Type    string `json:"type"`
		Version int    `json:"version"`
	}
	err := json.Unmarshal(body, &line)
	return Form{line.Type, line.Version}, err == nil && line.Type != "" && line.Version > 0
}

// Reads is the newest version that this program reads of each type of event. It reads all
// versions before that one.
func Reads() map[string]int {
	all := make(map[string]int)
	for _, t := range EventTypes() {
		all[t.Name] = t.Version
	}
	return all
}

// TooOldError: the commit was not accepted, since a node of the cluster runs a program that cannot
// read events of this form. It is an ErrBusy: with a newer program there, the same commit is
// accepted.
type TooOldError struct {
	Node string
	Form Form
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("node %s runs an older program, which cannot read events of the form %s: upgrade that node", e.Node, e.Form)
}

func (e *TooOldError) Unwrap() error { return ErrBusy }

// UnreadableError: this program cannot read the event that another node has at Position.
type UnreadableError struct {
	Position Position
	Form     Form // zero: it is not known
}

func (e *UnreadableError) Error() string {
	if e.Form == (Form{}) {
		return fmt.Sprintf("this program cannot read the event at position %d: install the program that the other nodes run", e.Position)
	}
	return fmt.Sprintf("this program is too old to read the event at position %d (%s): install the newer one that the other nodes run", e.Position, e.Form)
}
