package main

import (
	"crypto/rand"
	"path/filepath"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/audit"
	"payledger/eventstore/bolt"
)

// A log that is filled for a benchmark is one that the program could have
// written.
func TestFilledLogsAreValid(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	path := filepath.Join(data, "ledger.db")
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	if err := bolt.Init(path, ids.Next()); err != nil {
		t.Fatal(err)
	}
	store, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	project, codec := "prj_"+ids.Next().String(), eventstore.NewCodec()
	_, err = eventstore.Execute[projects.Project, projects.ProjectCommand](t.Context(), eventstore.Ledger{Store: store, Codec: codec},
		eventstore.ProjectStream(project), projects.Project{ID: project},
		projects.RegisterProject{Name: "Tea", Settings: domain.DefaultSettings()}, eventstore.Order{EventID: ids.Next()})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := fill(t.Context(), data, project, 20); err != nil {
		t.Fatal(err)
	}
	if store, err = bolt.Open(path, bolt.Options{}); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	report, err := audit.Check(t.Context(), audit.Of(t.Context(), store), audit.Options{Codec: codec, Structure: store.Verify})
	if err != nil || !report.OK() || report.Events != 1+20*eventsEach {
		t.Fatalf("%+v, %v", report, err)
	}
}
