package settlement_test

import (
	"errors"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/settlement"
)

// TestPayouts: a reference is booked once, and no merchant is paid more than it is owed.
func TestPayouts(t *testing.T) {
	t.Parallel()
	arrived := settlement.Payout{Route: "cards", Report: "r-1", Amount: 100, Currency: "RUB", Reference: "a"}
	paid := settlement.Payout{Amount: 100, Currency: "RUB", Reference: "a"}
	with := func(p settlement.Payout, change func(*settlement.Payout)) settlement.Payout {
		change(&p)
		return p
	}
	for _, test := range []struct {
		name     string
		before   []settlement.Payout
		command  settlement.RecordPayout
		event    bool
		err      string
		postings string
	}{
		{"arrived", nil, settlement.RecordPayout{Payout: arrived}, true, "", "bank 1.00, settlement_transit:cards -1.00"},
		{"arrived again", []settlement.Payout{arrived}, settlement.RecordPayout{Payout: arrived}, false, "", ""},
		{"arrived with another amount", []settlement.Payout{arrived}, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Amount++ })}, false, "payout_differs", ""},
		{"arrived of another report", []settlement.Payout{arrived}, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Report = "r-2" })}, false, "payout_differs", ""},
		{"another that arrived", []settlement.Payout{arrived}, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Reference = "b" })}, true, "", "bank 1.00, settlement_transit:cards -1.00"},
		{"paid", nil, settlement.RecordPayout{Payout: paid, Owed: domain.SumOf(100), AsOf: 7}, true, "", "merchant_payable 1.00, bank -1.00"},
		{"paid again, and nothing is owed", []settlement.Payout{paid}, settlement.RecordPayout{Payout: paid}, false, "", ""},
		{"paid too much", nil, settlement.RecordPayout{Payout: paid, Owed: domain.SumOf(99)}, false, "amount: amount_too_large", ""},
		{"paid by one who owes", nil, settlement.RecordPayout{Payout: paid, Owed: domain.SumOf(-1)}, false, "amount: amount_too_large", ""},
		{"paid after another", []settlement.Payout{with(paid, func(p *settlement.Payout) { p.Reference = "b" })}, settlement.RecordPayout{Payout: paid, Owed: domain.SumOf(100)}, false, settlement.ErrPaidMeanwhile.Error(), ""},
		{"no amount", nil, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Amount = 0 })}, false, "amount: invalid_value", ""},
		{"no currency", nil, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Currency = "JPY" })}, false, "currency: invalid_value", ""},
		{"no reference", nil, settlement.RecordPayout{Payout: with(paid, func(p *settlement.Payout) { p.Reference = "" })}, false, "reference: invalid_value", ""},
		{"a long reference", nil, settlement.RecordPayout{Payout: with(paid, func(p *settlement.Payout) { p.Reference = strings.Repeat("a", 129) })}, false, "reference: invalid_value", ""},
		{"no report", nil, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Report = "" })}, false, "report: invalid_value", ""},
		{"the report of no route", nil, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Route = "" })}, false, "report: invalid_value", ""},
		{"no route", nil, settlement.RecordPayout{Payout: with(arrived, func(p *settlement.Payout) { p.Route = "A B" })}, false, "route: invalid_value", ""},
	} {
		state := settlement.Payouts{All: test.before}
		e, err := state.Decide(test.command)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != test.err || (e != nil) != test.event {
			t.Errorf("%s: %v, %q; want the error %q", test.name, e, got, test.err)
			continue
		}
		if e == nil {
			continue
		}
		var moved []string
		for _, p := range domain.Postings(e) {
			moved = append(moved, string(p.Account)+" "+p.Amount.String())
		}
		if of := strings.Join(moved, ", "); of != test.postings {
			t.Errorf("%s: %s, want %s", test.name, of, test.postings)
		}
		if err := state.Redecide(e, test.command.Owed); err != nil {
			t.Errorf("%s: decided again: %v", test.name, err)
		}
		if err := state.Evolve(e).Redecide(e, test.command.Owed); err == nil {
			t.Errorf("%s: possible twice", test.name)
		}
	}
	fault := domain.FieldErrors{}
	if _, err := (settlement.Payouts{}).Decide(settlement.RecordPayout{Payout: paid, Owed: domain.SumOf(99)}); !errors.As(err, &fault) || fault[0].Max != 99 {
		t.Errorf("the largest payout is not named: %v", err)
	}
	if err := (settlement.Payouts{}).Redecide(settlement.ReportClosed{}, domain.Sum{}); err == nil {
		t.Error("a report is a payout")
	}
}
