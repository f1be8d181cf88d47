package domain_test

import (
	"testing"

	"payledger/domain"
	"payledger/domain/projects"
)

// What is in use already is not recorded again, and each event is what its command
// leads to.
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
	} {
		got, err := state.Decide(step.command)
		if err != nil || got != step.event {
			t.Fatalf("step %d: %+v, %v, want %+v", i, got, err, step.event)
		}
		if got == nil {
			continue
		}
		if err := state.Redecide(got); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		state = state.Evolve(got)
		if err := state.Redecide(got); err == nil {
			t.Errorf("step %d: recorded twice", i)
		}
	}
	if _, err := state.Decide(domain.LoadRoutes{SHA256: domain.Digest{9}, Rules: -1}); err == nil {
		t.Error("a negative number of rules was recorded")
	}
	if err := state.Redecide(projects.ProjectDisabled{}); err == nil {
		t.Error("an event of a project is none of the installation")
	}
}
