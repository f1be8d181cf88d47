package service

import (
	"crypto/rand"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
	"payledger/eventstore/memory"
)

// TestDifferences: a report that stays open is a difference from the time at which it was begun, and
// each fold goes on where the last one ended.
func TestDifferences(t *testing.T) {
	t.Parallel()
	began := time.Now().Add(-8 * 24 * time.Hour).Truncate(time.Millisecond)
	ids := domain.NewIDs(func() time.Time { return began }, rand.Reader, domain.ID{})
	l := eventstore.Ledger{Store: memory.New(), Codec: eventstore.NewCodec()}
	report := func(c settlement.ReportsCommand) {
		t.Helper()
		if _, err := eventstore.Execute(t.Context(), l, eventstore.ReportsStream("cards"), settlement.Reports{Route: "cards"}, c, eventstore.Order{EventID: ids.Next()}); err != nil {
			t.Fatal(err)
		}
	}
	now := domain.InstantOf(time.Now())
	d := differences{ledger: l, open: settlement.NewOpen(nil)}
	oldest := func(at eventstore.Position, want domain.Instant) {
		t.Helper()
		if err := d.fold(t.Context(), []string{"cards", "wallet"}, nil); err != nil {
			t.Fatal(err)
		}
		if got := d.open.Oldest(now, reportDays); got != want || d.at != at {
			t.Errorf("%v at position %d, want %v at %d", got, d.at, want, at)
		}
	}
	oldest(0, now)
	sum := settlement.Summary{}.Add(settlement.Line{Number: 1, Currency: "RUB", SettledOn: "2026-11-20"})
	report(settlement.OpenReport{At: domain.InstantOf(began), Report: settlement.Report{Route: "cards", Report: "r", SHA256: domain.Digest{1}, FeesPaidBy: settlement.ByOperator, Summary: sum}})
	oldest(1, domain.InstantOf(began))
	report(settlement.CloseReport{Report: "r", Recorded: sum})
	oldest(2, now)
}
