package forms

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"payledger/eventstore"
)

func line(typ string, version int) []byte {
	return fmt.Appendf(nil, `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":%q,"version":%d,"data":{}}`, typ, version)
}

// An event is admitted if all nodes can read it that are alive, or were not long ago.
func TestAdmit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_795_169_730, 0)
	b := New("b", Program{Reads: map[string]int{"paid": 2, "tipped": 1}}, []string{"a", "c"})
	check := func(typ string, version int, blamed string) {
		t.Helper()
		err := b.Admit(line(typ, version), now)
		old, ok := errors.AsType[*eventstore.TooOldError](err)
		switch {
		case blamed == "" && err != nil, blamed == "?" && !errors.Is(err, ErrNotAsked):
			t.Errorf("%s, version %d: %v", typ, version, err)
		case len(blamed) == 1 && blamed != "?" && (!ok || old.Node != blamed || old.Form != eventstore.Form{Type: typ, Version: version} || !errors.Is(err, eventstore.ErrBusy)):
			t.Errorf("%s, version %d: %v, want that node %s cannot read it", typ, version, err, blamed)
		}
	}
	check("paid", 2, "?")
	check("paid", 3, "b") // another node has sent it here
	b.Heard("a", Program{Reads: map[string]int{"paid": 1}}, now)
	check("paid", 1, "?")
	check("tipped", 1, "a")
	b.Heard("c", Program{}, now) // it does not answer, or does not say what it can read
	check("paid", 1, "")
	check("paid", 2, "a")
	b.Heard("a", Program{}, now)
	check("paid", 2, "a") // what it said last counts
	now = now.Add(SilentFor - 1)
	check("paid", 2, "a")
	now = now.Add(1)
	check("paid", 2, "")
	b.Heard("c", Program{Reads: map[string]int{"paid": 1}}, now)
	b.Heard("a", Program{Reads: map[string]int{"paid": 2}}, now)
	check("paid", 2, "c")
	b.Heard("c", Program{Reads: map[string]int{"paid": 3, "tipped": 1}}, now)
	check("paid", 2, "")
	check("tipped", 1, "a")
	if err := b.Admit([]byte("{}"), now); !errors.As(err, new(*eventstore.TooOldError)) {
		t.Errorf("what is no event: %v", err)
	}
	if err := New("b", Program{}, []string{"a"}).Admit([]byte("{}"), now); err != nil {
		t.Errorf("a program that does not say what it can read: %v", err)
	}
}

// A record is taken into the file if this program can read it.
func TestReadable(t *testing.T) {
	t.Parallel()
	b := New("b", Program{Reads: map[string]int{"paid": 2}}, nil)
	for _, r := range []struct {
		body []byte
		want eventstore.Form
		ok   bool
	}{
		{line("paid", 1), eventstore.Form{}, true},
		{line("paid", 2), eventstore.Form{}, true},
		{line("paid", 3), eventstore.Form{Type: "paid", Version: 3}, false},
		{line("tipped", 1), eventstore.Form{Type: "tipped", Version: 1}, false},
		{[]byte("?"), eventstore.Form{}, false},
	} {
		err := b.Readable(&eventstore.Stored{Position: 7, Body: r.body})
		unreadable, is := errors.AsType[*eventstore.UnreadableError](err)
		if is == r.ok || is && (*unreadable != eventstore.UnreadableError{Position: 7, Form: r.want} || !strings.Contains(err.Error(), "position 7")) {
			t.Errorf("%s: %v", r.body, err)
		}
	}
	if err := New("b", Program{}, nil).Readable(&eventstore.Stored{}); err != nil {
		t.Error(err)
	}
}

// What a node says of its program has bounds, and can be shown on a terminal.
func TestBounds(t *testing.T) {
	t.Parallel()
	types := func(n int) map[string]int {
		all := make(map[string]int)
		for i := range n {
			all[fmt.Sprint("type_", i)] = 1
		}
		return all
	}
	ours := Program{"v1.2.3-0.20261123175501-365bcf2fe1b3+dirty", maps.Clone(eventstore.Reads())}
	for _, p := range []Program{{}, {Version: "devel"}, ours, {Reads: types(maxTypes)}, {Reads: map[string]int{strings.Repeat("a", maxName): 1 << 40}}} {
		if err := p.Check(); err != nil {
			t.Errorf("%v: %v", p, err)
		}
	}
	for _, p := range []Program{
		{Version: strings.Repeat("1", maxName+1)},
		{Version: "v1\x1b[2J"},
		{Version: "v1 and more"},
		{Reads: types(maxTypes + 1)},
		{Reads: map[string]int{strings.Repeat("a", maxName+1): 1}},
		{Reads: map[string]int{"a\nb": 1}},
	} {
		if err := p.Check(); err == nil {
			t.Errorf("%v is taken", p)
		}
	}
}

func TestLacks(t *testing.T) {
	t.Parallel()
	older := Program{Reads: map[string]int{"paid": 1, "tipped": 2}}
	newer := Program{Reads: map[string]int{"paid": 3, "tipped": 2, "split": 1}}
	if got, want := older.Lacks(older, newer, Program{}), []string{"paid, version 3", "split, version 1"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := newer.Lacks(older, newer); got != nil {
		t.Errorf("%q", got)
	}
	if got := (Program{}).Lacks(newer); got != nil {
		t.Errorf("%q", got)
	}
	many := Program{Reads: make(map[string]int)}
	for i := range maxLacking + 1 {
		many.Reads[fmt.Sprint("type_", i)] = 1
	}
	if got := older.Lacks(many); len(got) != maxLacking {
		t.Errorf("%d forms are named", len(got))
	}
}
