package cli

import (
	"bytes"
	"strings"
	"testing"
)

// What others wrote moves no cursor, changes no colour and begins no row.
func TestTextsOfOthersAreOnlyShown(t *testing.T) {
	t.Parallel()
	const text = "declined\x1b[2J\x9b31m\r\nrow\ttab, не оплачен"
	var out bytes.Buffer
	a := &App{Stdout: &out}
	if err := a.PrintTable("none", []string{"NODE", "TROUBLE"}, [][]string{{"a", text}}); err != nil {
		t.Fatal(err)
	}
	if err := a.PrintRows([][2]string{{"reason", text}}); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(out.String(), "\x1b\u009b\r\t") || strings.Count(out.String(), "\n") != 3 {
		t.Errorf("printed %q", out.String())
	}
	if strings.Count(out.String(), "не оплачен") != 2 {
		t.Errorf("letters are lost: %q", out.String())
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0 events", 1: "1 event", 2: "2 events", 21: "21 events"} {
		if got := Count(n, "event"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
