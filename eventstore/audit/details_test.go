package audit

import (
	"bytes"
	"iter"
	"slices"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

func (w *world) erase(id domain.ID) {
	w.t.Helper()
	event := w.ids.Next()
	w.on(id, domain.EraseDetails{At: domain.IDTime(event), Reason: "on request"}, event, nil)
}

// TestDetails: details that are altered, swapped, missing or put back are named with their position
// and payment; erased ones are no fault.
func TestDetails(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var at []int // of the payments' first records
	for range 6 {
		w.create(true)
		at = append(at, len(w.records())-1)
	}
	kept := w.records()
	w.erase(w.payments[4])
	w.erase(w.payments[4]) // again: nothing
	records := w.records()
	if n := len(records); n != len(kept)+1 || records[at[4]].Details != nil || kept[at[4]].Details == nil {
		t.Fatalf("%d records after one erasure, %d before", n, len(kept))
	}
	if r := w.check(records); !r.OK() || r.Root == nil || r.NoDetails != 0 {
		t.Fatalf("with one payment erased: %+v", r)
	}
	for what, c := range map[string]struct {
		change func(r []eventstore.Stored)
		want   map[eventstore.Position]Kind
	}{
		"altered": {func(r []eventstore.Stored) {
			d := bytes.Clone(r[at[0]].Details)
			d[len(d)-5] ^= 1
			r[at[0]].Details = d
		}, map[eventstore.Position]Kind{records[at[0]].Position: BadEvent}},
		"swapped": {func(r []eventstore.Stored) {
			r[at[1]].Details, r[at[2]].Details = r[at[2]].Details, r[at[1]].Details
		}, map[eventstore.Position]Kind{records[at[1]].Position: BadEvent, records[at[2]].Position: BadEvent}},
		"missing":  {func(r []eventstore.Stored) { r[at[3]].Details = nil }, map[eventstore.Position]Kind{records[at[3]].Position: MissingDetails}},
		"put back": {func(r []eventstore.Stored) { r[at[4]].Details = kept[at[4]].Details }, map[eventstore.Position]Kind{records[at[4]].Position: KeptDetails}},
	} {
		changed := slices.Clone(records)
		for i := range changed {
			changed[i].Event = nil
		}
		c.change(changed)
		r := w.check(changed)
		got := make(map[eventstore.Position]Kind)
		for _, f := range r.Findings {
			got[f.Position] = f.Kind
			if f.Stream != nameOf(records[f.Position-1].Stream) {
				t.Errorf("%s: found in %s", what, f.Stream)
			}
		}
		if len(got) != len(c.want) || len(r.Findings) != len(c.want) || r.OK() {
			t.Errorf("%s: %v", what, r.Findings)
		}
		for p, k := range c.want {
			if got[p] != k {
				t.Errorf("%s: position %d: %q, want %q", what, p, got[p], k)
			}
		}
	}

	// What was erased while the log was read was there before.
	src := func(after eventstore.Position) iter.Seq2[eventstore.Stored, error] {
		if after > 0 {
			return listed(records)(after)
		}
		before := slices.Clone(records)
		before[at[4]].Details = kept[at[4]].Details
		return listed(before)(after)
	}
	r, err := Check(t.Context(), src, Options{Codec: w.ledger.Codec, Against: Against{Verifiers: w.verifiers()}})
	if err != nil || !r.OK() {
		t.Errorf("erased during the check: %+v, %v", r, err)
	}

	// A log that was made without details lacks those up to where it was restored.
	bare := slices.Clone(records)
	for _, i := range at {
		bare[i].Details, bare[i].Event = nil, nil
	}
	if r := w.check(bare); r.Found != 5 {
		t.Errorf("without any details: %v", r.Findings)
	}
	restored := Options{Codec: w.ledger.Codec, Against: Against{Verifiers: w.verifiers()}, Restored: records[at[2]].Position}
	if r, err := Check(t.Context(), listed(bare), restored); err != nil || r.Found != 2 || r.NoDetails != 3 {
		t.Errorf("restored without details up to the third: %+v, %v", r, err)
	}
}

// TestDetailsOfManyPayments: however many payments' details are not there, erased ones are neither
// missing nor lost by a restore, and those that nobody has erased are found.
func TestDetailsOfManyPayments(t *testing.T) {
	t.Parallel()
	const n = 1<<16 + 100
	w := newWorld(t)
	for range n {
		w.create(false)
	}
	for _, id := range w.payments[:n-3] {
		w.erase(id)
	}
	records := w.records()
	last := eventstore.Position(n + 1) // payment's creation, behind that of the project
	for i := last - 3; i < last; i++ {
		records[i].Details, records[i].Event = nil, nil
	}
	o := Options{Codec: w.ledger.Codec, Against: Against{Verifiers: w.verifiers()}, Restored: last - 2}
	r, err := Check(t.Context(), listed(records), o)
	if err != nil || r.Found != 2 || r.NoDetails != 1 || r.FirstBad != last-1 || r.Findings[1].Position != last {
		t.Errorf("three lack details, one of which was restored without: %+v, %v", r, err)
	}
	if want := nameOf(records[last-1].Stream); r.Findings[1].Stream != want || r.Findings[1].Kind != MissingDetails {
		t.Errorf("%v, want it of %s", r.Findings[1], want)
	}
}
