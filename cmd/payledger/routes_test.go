package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
)

func TestWhatARouteLeavesOut(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "routes.json")
	content := `[{"route":"a"},{"route":"b","weight":0},{"route":"c","currency":"RUB","min":"1.00","max":"5.00","weight":3}]`
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := readRoutes(name)
	if err != nil {
		t.Fatal(err)
	}
	want := domain.RoutingTable{
		{Route: "a", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1},
		{Route: "b", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 0},
		{Route: "c", Currency: "RUB", Min: 100, Max: 500, Weight: 3},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
