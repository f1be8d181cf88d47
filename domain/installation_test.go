package domain_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/projects"
)

// What is so already is not recorded again, and each event is what its command leads
// to.
func TestInstallation(t *testing.T) {
	t.Parallel()
	var state domain.Installation
	for i, step := range []struct {
		command domain.InstallationCommand
		event   domain.Event
	}{
		{domain.LoadRoutes{On: domain.RoutesOnStart}, nil}, // there is no file, and was none
		{domain.LoadRoutes{SHA256: domain.Digest{1}, Rules: 2, On: domain.RoutesOnStart}, domain.RoutesLoaded{SHA256: domain.Digest{1}, Rules: 2, On: domain.RoutesOnStart}},
		{domain.LoadRoutes{SHA256: domain.Digest{1}, Rules: 2, On: domain.RoutesOnSignal}, nil},
		{domain.LoadRoutes{On: domain.RoutesOnStart}, domain.RoutesLoaded{On: domain.RoutesOnStart}},
		{domain.RestoreLog{RestoredAt: 7, File: "monday.db"}, domain.LogRestored{RestoredAt: 7, File: "monday.db"}},
		{domain.RestoreLog{RestoredAt: 7, File: "monday.db"}, nil},
		{domain.RestoreLog{RestoredAt: 8, File: "monday.db"}, domain.LogRestored{RestoredAt: 8, File: "monday.db"}},
		{domain.ResumeRoute{Route: "cards"}, nil},
		{domain.PauseRoute{Route: "cash", Since: 8}, domain.RoutePaused{Route: "cash", Since: 8}},
		{domain.PauseRoute{Route: "cards", Since: 9}, domain.RoutePaused{Route: "cards", Since: 9}},
		{domain.PauseRoute{Route: "cards", Since: 10}, nil},
		{domain.PauseRoute{Route: "cards", Since: 11, Reason: "Stripe is down"}, domain.RoutePaused{Route: "cards", Since: 9, Reason: "Stripe is down"}},
		{domain.PauseRoute{Route: "cards", Since: 12}, nil},
		{domain.ResumeRoute{Route: "cash"}, domain.RouteResumed{Route: "cash"}},
	} {
		got, err := state.Decide(step.command)
		if err != nil || got != step.event {
			t.Fatalf("step %d: %+v, %v, want %+v", i, got, err, step.event)
		}
		if got == nil {
			continue
		}
		now := domain.Recorded{Version: 2}
		if p, ok := step.command.(domain.PauseRoute); ok {
			now.At = p.Since
		}
		if err := state.Redecide(got, now); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		state = state.Evolve(got)
		if err := state.Redecide(got, now); err == nil {
			t.Errorf("step %d: recorded twice", i)
		}
	}
	if want := []domain.Pause{{Route: "cards", Since: 9, Reason: "Stripe is down"}}; !slices.Equal(state.Paused, want) {
		t.Errorf("paused: %+v", state.Paused)
	}
	if _, err := state.Decide(domain.LoadRoutes{SHA256: domain.Digest{9}, Rules: -1}); err == nil {
		t.Error("a negative number of rules was recorded")
	}
	if err := state.Redecide(projects.ProjectDisabled{}, domain.Recorded{}); err == nil {
		t.Error("an event of a project is none of the installation")
	}
}

// An act on what the log does not hold is recorded each time.
func TestActsBesideTheLog(t *testing.T) {
	t.Parallel()
	var state domain.Installation
	for _, e := range []domain.InstallationEvent{
		domain.NATSConsumerCreated{Name: "books"},
		domain.NATSConsumerReset{Name: "books", Position: 7},
		domain.NATSConsumerRemoved{Name: "books"},
		domain.ParkedSignalRetried{ID: 7},
		domain.ParkedSignalDiscarded{ID: 7},
		domain.ParkedSignalsDiscarded{Through: 7},
		domain.LogKeyRenewed{VerifierKey: "k"},
	} {
		for range 2 {
			got, err := state.Decide(domain.RecordAct{Act: e})
			if err != nil || got != domain.Event(e) {
				t.Errorf("%+v, %v", got, err)
			}
			if err := state.Redecide(e, domain.Recorded{Version: 1}); err != nil {
				t.Error(err)
			}
			state = state.Evolve(e)
		}
	}
}

// Version 1 recorded each pause and resumption, without the time. Later ones begin
// when they are recorded.
func TestPausesOfVersion1(t *testing.T) {
	t.Parallel()
	var state domain.Installation
	for _, e := range []domain.Event{
		domain.RouteResumed{Route: "cards"}, domain.RoutePaused{Route: "cards"}, domain.RoutePaused{Route: "cards"},
	} {
		if err := state.Redecide(e, domain.Recorded{At: 5, Version: 1}); err != nil {
			t.Error(err)
		}
		state = state.Evolve(e)
	}
	if _, ok := state.Pause("cards"); !ok {
		t.Error("the route is not paused")
	}
	forged := domain.RoutePaused{Route: "cash", Since: 4}
	if err := state.Redecide(forged, domain.Recorded{At: 5, Version: 2}); err == nil {
		t.Error("a pause began before it was recorded")
	}
}

func TestRulesOfPausedRoutes(t *testing.T) {
	t.Parallel()
	var none domain.Installation
	cards, cash := domain.Rule{Route: "cards"}, domain.Rule{Route: "cash"}
	all := domain.RoutingTable{cards, cash, cards}
	one := none.Evolve(domain.RoutePaused{Route: "cards"})
	both := one.Evolve(domain.RoutePaused{Route: "cash"})
	for i, want := range [][2]domain.RoutingTable{{all, nil}, {{cash}, {cards, cards}}, {nil, all}} {
		inUse, paused := []domain.Installation{none, one, both}[i].Split(all)
		if diff := cmp.Diff(want, [2]domain.RoutingTable{inUse, paused}); diff != "" {
			t.Errorf("%d paused:\n%s", i, diff)
		}
	}
}
