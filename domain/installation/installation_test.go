package installation_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/domain/installation"
	"payledger/domain/projects"
)

// What is so already is not recorded again, and each event is what its command leads
// to.
func TestInstallation(t *testing.T) {
	t.Parallel()
	var state installation.Installation
	for i, step := range []struct {
		command installation.Command
		event   domain.Event
	}{
		{installation.LoadRoutes{On: installation.RoutesOnStart}, nil}, // there is no file, and was none
		{installation.LoadRoutes{SHA256: domain.Digest{1}, Rules: 2, On: installation.RoutesOnStart}, installation.RoutesLoaded{SHA256: domain.Digest{1}, Rules: 2, On: installation.RoutesOnStart}},
		{installation.LoadRoutes{SHA256: domain.Digest{1}, Rules: 2, On: installation.RoutesOnSignal}, nil},
		{installation.LoadRoutes{On: installation.RoutesOnStart}, installation.RoutesLoaded{On: installation.RoutesOnStart}},
		{installation.RestoreLog{RestoredAt: 7, File: "monday.db"}, installation.LogRestored{RestoredAt: 7, File: "monday.db"}},
		{installation.RestoreLog{RestoredAt: 7, File: "monday.db"}, nil},
		{installation.RestoreLog{RestoredAt: 8, File: "monday.db"}, installation.LogRestored{RestoredAt: 8, File: "monday.db"}},
		{installation.ResumeRoute{Route: "cards"}, nil},
		{installation.PauseRoute{Route: "cash", Since: 8}, installation.RoutePaused{Route: "cash", Since: 8}},
		{installation.PauseRoute{Route: "cards", Since: 9}, installation.RoutePaused{Route: "cards", Since: 9}},
		{installation.PauseRoute{Route: "cards", Since: 10}, nil},
		{installation.PauseRoute{Route: "cards", Since: 11, Reason: "Stripe is down"}, installation.RoutePaused{Route: "cards", Since: 9, Reason: "Stripe is down"}},
		{installation.PauseRoute{Route: "cards", Since: 12}, nil},
		{installation.ResumeRoute{Route: "cash"}, installation.RouteResumed{Route: "cash"}},
		{installation.SettleRouteSince{Route: "cash"}, nil},
		{installation.SettleRouteSince{Route: "cash", Since: 5}, installation.RouteSettledSince{Route: "cash", Since: 5}},
		{installation.SettleRouteSince{Route: "cards", Since: 5}, installation.RouteSettledSince{Route: "cards", Since: 5}},
		{installation.SettleRouteSince{Route: "cards", Since: 5}, nil},
		{installation.SettleRouteSince{Route: "cards", Since: 6}, installation.RouteSettledSince{Route: "cards", Since: 6}},
		{installation.SettleRouteSince{Route: "cash"}, installation.RouteSettledSince{Route: "cash"}},
	} {
		got, err := state.Decide(step.command)
		if err != nil || got != step.event {
			t.Fatalf("step %d: %+v, %v, want %+v", i, got, err, step.event)
		}
		if got == nil {
			continue
		}
		now := domain.Recorded{Version: 2}
		if p, ok := step.command.(installation.PauseRoute); ok {
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
	if want := []installation.Pause{{Route: "cards", Since: 9, Reason: "Stripe is down"}}; !slices.Equal(state.Paused, want) {
		t.Errorf("paused: %+v", state.Paused)
	}
	if want := map[string]domain.Instant{"cards": 6}; !maps.Equal(state.SettledSince, want) {
		t.Errorf("settled since: %v", state.SettledSince)
	}
	if _, err := state.Decide(installation.LoadRoutes{SHA256: domain.Digest{9}, Rules: -1}); err == nil {
		t.Error("a negative number of rules was recorded")
	}
	if err := state.Redecide(projects.ProjectDisabled{}, domain.Recorded{}); err == nil {
		t.Error("an event of a project is none of the installation")
	}
}

// An act on what the log does not hold is recorded each time.
func TestActsBesideTheLog(t *testing.T) {
	t.Parallel()
	var state installation.Installation
	for _, e := range []installation.Act{
		installation.ParkedSignalRetried{ID: 7},
		installation.ParkedSignalDiscarded{ID: 7},
		installation.ParkedSignalsDiscarded{Through: 7},
		installation.LogKeyRenewed{VerifierKey: "k"},
	} {
		for range 2 {
			got, err := state.Decide(installation.RecordAct{Act: e})
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

// Consumers are what the events say, and each event is what its command leads to.
func TestConsumers(t *testing.T) {
	t.Parallel()
	var state installation.Installation
	refused := func(c installation.Command, code domain.Code) {
		t.Helper()
		_, err := state.Decide(c)
		if r, ok := errors.AsType[*domain.Refusal](err); !ok || r.Code != code {
			t.Errorf("%+v: %v, want %s", c, err, code)
		}
	}
	done := func(c installation.Command) {
		t.Helper()
		e, err := state.Decide(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Redecide(e, domain.Recorded{Version: 2}); err != nil {
			t.Error(err)
		}
		state = state.Evolve(e)
	}
	create := func(name string) installation.CreateNATSConsumer {
		return installation.CreateNATSConsumer{Name: name, ProjectID: "prj_1", Password: "hash", Start: domain.ID{1}, Position: 3}
	}
	refused(installation.ResetNATSConsumer{Name: "books"}, domain.NATSConsumerNotFound)
	refused(installation.RemoveNATSConsumer{Name: "books"}, domain.NATSConsumerNotFound)
	done(create("mail"))
	done(create("books"))
	refused(create("books"), domain.NATSConsumerExists)
	before := state
	done(installation.ResetNATSConsumer{Name: "books", Position: 7, Start: domain.ID{2}})
	want := []installation.Consumer{{"books", "prj_1", "hash", domain.ID{2}, 7}, {"mail", "prj_1", "hash", domain.ID{1}, 3}}
	if !slices.Equal(state.Consumers, want) {
		t.Errorf("%+v", state.Consumers)
	}
	if before.Consumers[0].From != 3 {
		t.Error("an earlier state has changed")
	}
	done(installation.RemoveNATSConsumer{Name: "mail"})
	for i := range installation.MaxConsumers - 1 {
		done(create(fmt.Sprint("c", i)))
	}
	refused(create("more"), domain.NATSConsumerLimit)
	if err := (installation.Installation{}).Redecide(installation.NATSConsumerRemoved{Name: "books"}, domain.Recorded{Version: 2}); err == nil {
		t.Error("a consumer that is not there was removed")
	}
}

// Version 1 told of consumers that were kept in a file.
func TestConsumersOfVersion1(t *testing.T) {
	t.Parallel()
	var state installation.Installation
	for _, e := range []domain.Event{
		installation.NATSConsumerCreated{Name: "books"},
		installation.NATSConsumerReset{Name: "books", Position: 7},
		installation.NATSConsumerRemoved{Name: "books"},
		installation.NATSConsumerCreated{Name: "books"},
		installation.NATSConsumerCreated{Name: "books"},
	} {
		if err := state.Redecide(e, domain.Recorded{Version: 1}); err != nil {
			t.Error(err)
		}
		state = state.Evolve(e)
	}
	if len(state.Consumers) > 0 {
		t.Errorf("%+v", state.Consumers)
	}
}

// Version 1 recorded each pause and resumption, without the time. Later ones begin
// when they are recorded.
func TestPausesOfVersion1(t *testing.T) {
	t.Parallel()
	var state installation.Installation
	for _, e := range []domain.Event{
		installation.RouteResumed{Route: "cards"}, installation.RoutePaused{Route: "cards"}, installation.RoutePaused{Route: "cards"},
	} {
		if err := state.Redecide(e, domain.Recorded{At: 5, Version: 1}); err != nil {
			t.Error(err)
		}
		state = state.Evolve(e)
	}
	if _, ok := state.Pause("cards"); !ok {
		t.Error("the route is not paused")
	}
	forged := installation.RoutePaused{Route: "cash", Since: 4}
	if err := state.Redecide(forged, domain.Recorded{At: 5, Version: 2}); err == nil {
		t.Error("a pause began before it was recorded")
	}
}

func TestRulesOfPausedRoutes(t *testing.T) {
	t.Parallel()
	var none installation.Installation
	cards, cash := domain.Rule{Route: "cards"}, domain.Rule{Route: "cash"}
	all := domain.RoutingTable{cards, cash, cards}
	one := none.Evolve(installation.RoutePaused{Route: "cards"})
	both := one.Evolve(installation.RoutePaused{Route: "cash"})
	for i, want := range [][2]domain.RoutingTable{{all, nil}, {{cash}, {cards, cards}}, {nil, all}} {
		inUse, paused := []installation.Installation{none, one, both}[i].Split(all)
		if diff := cmp.Diff(want, [2]domain.RoutingTable{inUse, paused}); diff != "" {
			t.Errorf("%d paused:\n%s", i, diff)
		}
	}
}
