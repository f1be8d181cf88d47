package cluster

import (
	"errors"
	"slices"
	"testing"
	"time"

	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// askOf gives a node events and returns what it asks for.
func askOf(n *node, now time.Duration, events ...event) (out []effect) {
	for _, e := range events {
		out = append(out, n.step(now, e)...)
	}
	return out
}

func has[T effect](all []effect) bool {
	return slices.ContainsFunc(all, func(x effect) bool { _, ok := x.(T); return ok })
}

// A peer that says it has a group which nobody has is named after a while, and the
// sequencer goes on. Nobody is behind LOG for what a peer says.
func TestAbsurdNumber(t *testing.T) {
	t.Parallel()
	n := newNode("A", nil, [8]byte{1}, 5)
	out := askOf(n, time.Second, matched{}, leads{true}, sequencing{"A"}, status{"B", 1, 1 << 60}, ended{5}, tick{})
	if !slices.Contains(out, effect(republish{"B", 6})) || has[publish](out) || n.follower.behind() {
		t.Errorf("at first: %v", out)
	}
	out = askOf(n, time.Second+patience, ended{5}, tick{})
	if !has[doubt](out) || !has[publish](out) {
		t.Errorf("after a while: %v", out)
	}
	askOf(n, 2*time.Second+patience, reading{1})
	if out = askOf(n, 2*time.Second+patience, answered{1, 1 << 60}); len(n.forwarder.granted) > 0 || len(n.forwarder.asked) == 0 {
		t.Errorf("an absurd answer is taken: %v", out)
	}
}

// Before a node answers its peers or counts on them, it asks the sequencer once. If a peer
// says that it has a group which does not come, the sequencer alone is asked.
func TestPeersAnswers(t *testing.T) {
	t.Parallel()
	n := newNode("A", []nodeName{"B", "C"}, [8]byte{}, 5)
	step := func(now time.Duration, want []effect, events ...event) {
		t.Helper()
		if got := askOf(n, now, events...); !slices.Equal(got, want) {
			t.Errorf("%v lead to %v, want %v", events, got, want)
		}
	}
	step(0, nil, matched{}, sequencing{"B"}, asksShown{"C", 7})
	step(0, []effect{ask{"B", 1}}, reading{1})
	step(0, nil, told{"B", 1, 5}, told{"C", 1, 5})
	step(0, []effect{serve{read: 1}, tellShown{"C", 8, 5}}, answered{1, 5}, asksShown{"C", 8})
	step(0, []effect{askShown{2}, serve{read: 2}}, reading{2}, told{"B", 2, 5}, told{"B", 2, 4}, told{"D", 2, 5}, told{"C", 1, 5}, told{"C", 2, 5})

	step(0, []effect{askShown{3}}, reading{3}, told{"C", 3, 1 << 60}, told{"C", 3, 5}, told{"B", 3, 6})
	step(retryAfter, []effect{ask{"B", 4}}, tick{})
	step(retryAfter, []effect{serve{read: 3}, ask{"B", 5}}, answered{4, 5}, reading{4})
	step(retryAfter, []effect{serve{read: 4}}, answered{5, 5})

	later := retryAfter + patience
	step(later, []effect{askShown{6}, ask{"B", 6}}, reading{5})
	step(later, []effect{serve{read: 5}}, told{"B", 6, 5}, told{"C", 6, 5})
	step(later, []effect{askShown{7}}, reading{6}, told{"B", 7, 5})
	later += peersTime
	step(later, []effect{askShown{8}, ask{"B", 8}}, tick{})
	step(later, []effect{serve{read: 6}}, answered{8, 5})
}

// What LOG spoke of and does not have any more is not waited for, if nobody has it.
func TestLOGForgetsWhatNobodyHas(t *testing.T) {
	t.Parallel()
	n := newNode("A", nil, [8]byte{1}, 5)
	askOf(n, time.Second, matched{}, ended{9}, tick{})
	if !n.follower.behind() {
		t.Error("it is not behind LOG")
	}
	if askOf(n, time.Second+patience, tick{}); n.follower.behind() {
		t.Error("it is still behind")
	}
}

// A group of one peer that does not follow from the file does not stop the node, one of
// both peers does, and so does one of LOG.
func TestGroupThatDoesNotFollow(t *testing.T) {
	t.Parallel()
	g := &bolt.Group{Number: 6, First: 1, Records: [][]byte{{1}}}
	why := &bolt.MismatchError{Number: 6}
	for what, c := range map[string]struct {
		events []event
		stops  bool
	}{
		"one peer, again and again": {[]event{fetched{g, "B"}, misfit{why}, fetched{g, "B"}, misfit{why}}, false},
		"both peers":                {[]event{fetched{g, "B"}, misfit{why}, fetched{g, "C"}, misfit{why}}, true},
		"LOG":                       {[]event{fed{g}, misfit{why}}, true},
		"a peer, and LOG behind it": {[]event{fetched{g, "B"}, fed{&bolt.Group{Number: 6, Nonce: bolt.Nonce{1}}}, misfit{why}}, false},
	} {
		n := newNode("A", nil, [8]byte{1}, 5)
		askOf(n, time.Second, matched{}, ended{6})
		if out := askOf(n, time.Second, c.events...); n.stopped != c.stops || has[doubt](out) == (what == "LOG") {
			t.Errorf("%s: stopped %v, %v", what, n.stopped, out)
		}
	}
	// What LOG does not have is not taken from a peer.
	n := newNode("A", nil, [8]byte{1}, 5)
	if out := askOf(n, time.Second, matched{}, ended{5}, fetched{g, "B"}); has[apply](out) {
		t.Errorf("a group that LOG does not have: %v", out)
	}
}

// A node whose file was never compared with LOG neither publishes nor gives groups.
func TestUnsureNode(t *testing.T) {
	t.Parallel()
	n := newNode("A", nil, [8]byte{1}, 5)
	out := askOf(n, time.Second, leads{true}, status{"B", 1, 5})
	if n.follower.sure || has[publish](out) {
		t.Errorf("before it is compared: %v", out)
	}
	if out = askOf(n, time.Second, ended{3}); !has[republish](out) {
		t.Errorf("LOG is shorter: %v", out)
	}
	if out = askOf(n, time.Second, matched{}); !n.follower.sure || !has[publish](out) {
		t.Errorf("once it is: %v", out)
	}
}

// LOG is trimmed up to a group without records, and all nodes restart: what their files
// lack had no records.
func TestRestartBehindTrimmedBarriers(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	ctx := t.Context()
	if _, err := appended(ctx, x.stores[0], paymentCommit(1, 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 * maxAhead {
		if _, err := lastOf(ctx, x.stores[1]); err != nil {
			t.Fatal(err)
		}
	}
	x.until("LOG is trimmed", func() bool {
		_, _ = lastOf(ctx, x.stores[2])
		s := x.stores[x.sequencer()]
		s.trim()
		s.hear()
		return s.Status().LOG.First > maxAhead+10
	})
	for i := range names {
		x.stop(i)
	}
	x.startAll()
	if last, err := lastOf(ctx, x.stores[0]); err != nil || last != 1 {
		t.Errorf("position %d: %v", last, err)
	}
	if _, err := appended(ctx, x.stores[2], paymentCommit(2, 0)); err != nil {
		t.Error(err)
	}
}

// A node whose file has groups that LOG forgot, and LOG has gone on without them, stops
// when it is back, and says what its file alone has. The others go on.
func TestFileThatLOGWentOnWithout(t *testing.T) {
	t.Parallel()
	x := startThree(t)
	ctx := t.Context()
	for i := range 3 {
		if _, err := appended(ctx, x.stores[0], paymentCommit(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	back := (x.sequencer() + 1) % 3
	if _, err := lastOf(ctx, x.stores[back]); err != nil {
		t.Fatal(err)
	}
	x.stop(back)
	file, err := bolt.Open(x.path(back), bolt.Options{MinFree: 1, Replicate: func(g *bolt.Group) error {
		g.Number, g.Nonce = 1_000, bolt.Nonce{9}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := file.Replica()
	if err != nil {
		t.Fatal(err)
	}
	stray := paymentCommit(77, 0)
	if got := file.Append(ctx, stray); got[0].Err != nil {
		t.Fatal(got[0].Err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	x.serve(back)
	other := (back + 1) % 3
	if _, err := appended(ctx, x.stores[other], paymentCommit(5, 0)); err != nil {
		t.Fatal(err)
	}
	x.open(back)
	x.until("the node stops", func() bool { return x.stores[back].Status().Stopped != "" })
	want := []string{"4 payment " + stray.Record.Stream.ID}
	if st := x.stores[back].Status(); r.Last != 3 || !slices.Equal(st.Extra, want) {
		t.Errorf("behind position %d it says %+v, want %q", r.Last, st, want)
	}
	if _, err := x.stores[back].Last(ctx); !errors.Is(err, eventstore.ErrBusy) {
		t.Errorf("it is read: %v", err)
	}
	if _, err := appended(ctx, x.stores[other], paymentCommit(6, 0)); err != nil {
		t.Errorf("another node: %v", err)
	}
	for i, s := range x.stores {
		if st := s.Status(); i != back && st.Stopped != "" {
			t.Errorf("node %s stops: %s", names[i], st.Stopped)
		}
	}
}
