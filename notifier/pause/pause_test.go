package pause_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/notifier/pause"
)

func write(name string, content []byte) error { return os.WriteFile(name, content, 0o600) }

func open(t *testing.T, name string) *pause.Book {
	t.Helper()
	b, err := pause.Open(name, write)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPausesAreKept(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "paused.json")
	b := open(t, name)
	for _, route := range []string{"cash", "cards", "cards"} {
		if _, err := b.Pause(route, "", 1000); err != nil {
			t.Fatal(err)
		}
	}
	if p, err := b.Pause("cards", "Stripe is down", 2000); err != nil || p != (pause.Pause{Route: "cards", Since: 1000, Reason: "Stripe is down"}) {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := b.Pause("cards", "", 3000); err != nil || p.Reason != "Stripe is down" {
		t.Errorf("%+v, %v", p, err)
	}
	if was, err := b.Resume("cash"); !was || err != nil {
		t.Errorf("%t, %v", was, err)
	}
	if was, err := b.Resume("cash"); was || err != nil {
		t.Errorf("resumed again: %t, %v", was, err)
	}
	again := open(t, name)
	if diff := cmp.Diff([]pause.Pause{{Route: "cards", Since: 1000, Reason: "Stripe is down"}}, again.All()); diff != "" {
		t.Error(diff)
	}
	cards, cash := domain.Rule{Route: "cards"}, domain.Rule{Route: "cash"}
	inUse, paused := again.Split(domain.RoutingTable{cards, cash, cards})
	if diff := cmp.Diff([]domain.RoutingTable{{cash}, {cards, cards}}, []domain.RoutingTable{inUse, paused}); diff != "" {
		t.Error(diff)
	}
}

// What could not be written does not count: after a restart it would be different.
func TestPauseThatCannotBeKept(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	b, err := pause.Open(filepath.Join(t.TempDir(), "paused.json"), func(string, []byte) error { return full })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Pause("cards", "", 1000); !errors.Is(err, full) || b.Paused("cards") {
		t.Errorf("%v, paused: %t", err, b.Paused("cards"))
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "paused.json")
	if _, err := open(t, name).Pause("cards", "", 1000); err != nil {
		t.Fatal(err)
	}
	sound, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, damaged := range [][]byte{
		nil, sound[:len(sound)/2], []byte("{}"),
		bytes.Replace(sound, []byte("cards"), []byte("cardz"), 1),
		bytes.Replace(sound, []byte(`"version":1`), []byte(`"version":2`), 1),
		bytes.Replace(sound, []byte(`"version":1`), []byte(`"more":1,"version":1`), 1),
	} {
		if err := write(name, damaged); err != nil {
			t.Fatal(err)
		}
		if _, err := pause.Open(name, write); err == nil {
			t.Errorf("opened %s", damaged)
		}
	}
}
