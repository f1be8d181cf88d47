package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/cluster/forms"
)

// versioned is a commit whose event has this version.
func versioned(i, version int) eventstore.Commit {
	c := paymentCommit(i, 0)
	c.Record.Body = fmt.Appendf(nil, `{"id":%q,"type":"thing","version":%d,"data":{}}`, c.ID, version)
	return c
}

func reads(version int) forms.Program {
	return forms.Program{Version: fmt.Sprint("v", version), Reads: map[string]int{"thing": version}}
}

// appendsWhenHeard sends a commit until the sequencer has heard of all programs.
func appendsWhenHeard(t *testing.T, s *Store, c eventstore.Commit) {
	t.Helper()
	for end := time.Now().Add(patienceOfTests); ; time.Sleep(50 * time.Millisecond) {
		_, err := appended(t.Context(), s, c)
		if err == nil {
			return
		}
		if !errors.Is(err, eventstore.ErrBusy) || time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// While one node runs an older program, the others record nothing that it cannot read. A
// node that meets such an event all the same stops in front of it with its file as it is,
// and goes on with a newer program.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	x := &three{t: t, programs: [3]forms.Program{reads(1), reads(1), reads(1)}}
	x.start()
	leave := func(i int) { // its server stays, and is not to lead LOG
		for x.stores[i].Withdraw(t.Context()) != nil && t.Context().Err() == nil {
			time.Sleep(10 * time.Millisecond)
		}
		x.close(i)
	}
	restart := func(version, i int) {
		t.Helper()
		if x.stores[i] != nil {
			leave(i)
		}
		x.programs[i] = reads(version)
		if err := x.tryOpen(i); err != nil {
			t.Fatal(err)
		}
	}
	appendsWhenHeard(t, x.stores[0], versioned(1, 1))
	restart(2, 1)
	restart(2, 2)
	for i, s := range x.stores {
		old, ok := errors.AsType[*eventstore.TooOldError](func() error {
			_, err := appended(t.Context(), s, versioned(2, 2))
			return err
		}())
		if !ok || old.Node != names[0] || old.Form != (eventstore.Form{Type: "thing", Version: 2}) {
			t.Errorf("node %s: %v, want that node A cannot read it", names[i], old)
		}
		appendsWhenHeard(t, s, versioned(10+i, 1))
	}
	restart(2, 0)
	for i, s := range x.stores {
		appendsWhenHeard(t, s, versioned(20+i, 2))
	}

	// Nobody knows any more which program node C runs.
	leave(2)
	restart(3, 0)
	restart(3, 1)
	appendsWhenHeard(t, x.stores[0], versioned(30, 1))
	before, err := lastOf(t.Context(), x.stores[0])
	if err != nil {
		t.Fatal(err)
	}
	appendsWhenHeard(t, x.stores[0], versioned(31, 3))
	restart(2, 2)
	for end := time.Now().Add(patienceOfTests); x.stores[2].Status().Stopped == "" && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	st := x.stores[2].Status()
	if want := fmt.Sprintf("this program is too old to read the event at position %d (thing, version 3)", before+1); !strings.Contains(st.Stopped, want) || st.Position != before {
		t.Errorf("at position %d: %q, want at position %d that %s", st.Position, st.Stopped, before, want)
	}
	if _, err := appended(t.Context(), x.stores[2], versioned(32, 1)); !errors.As(err, new(*eventstore.UnreadableError)) {
		t.Errorf("a node whose program is too old: %v", err)
	}
	restart(3, 2)
	appendsWhenHeard(t, x.stores[2], versioned(33, 3))
	if err := x.stores[2].Verify(t.Context()); err != nil {
		t.Error(err)
	}
}
