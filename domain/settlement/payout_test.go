package settlement_test

import (
	"errors"
	"strconv"
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

// TestUndoPayout: a payout is booked back once, and its reference may be used again.
func TestUndoPayout(t *testing.T) {
	t.Parallel()
	var state settlement.Payouts
	do := func(c settlement.PayoutCommand, owed domain.Sum) (text string) {
		t.Helper()
		e, err := state.Decide(c)
		if e == nil || err != nil {
			return strings.TrimSpace("nothing " + errText(err))
		}
		if err := state.Redecide(e, owed); err != nil {
			t.Errorf("decided again: %v", err)
		}
		before := state
		if state = state.Evolve(e); state.Redecide(e, owed) == nil {
			t.Errorf("%+v is possible twice", e)
		}
		if before.Evolve(e).All[0] != state.All[0] {
			t.Error("what an event leads to depends on what was before")
		}
		for _, p := range domain.Postings(e) {
			text += string(p.Account) + " " + p.Amount.String() + " "
		}
		return strings.TrimSpace(text)
	}
	owed := domain.SumOf(100)
	pay := func(amount domain.Amount, after int) settlement.PayoutCommand {
		return settlement.RecordPayout{Payout: settlement.Payout{Amount: amount, Currency: "RUB", Reference: "a"}, Owed: owed, AsOf: 7, After: after}
	}
	for i, step := range []struct {
		command settlement.PayoutCommand
		want    string
	}{
		{settlement.UndoPayout{Number: 1, Reason: "x"}, "nothing payout_not_found"},
		{pay(90, 0), "merchant_payable 0.90 bank -0.90"},
		{settlement.UndoPayout{Number: 1}, "nothing reason: invalid_value"},
		{settlement.UndoPayout{Number: 1, Reason: strings.Repeat("x", 257)}, "nothing reason: invalid_value"},
		{settlement.UndoPayout{Number: 0, Reason: "x"}, "nothing payout_not_found"},
		{settlement.UndoPayout{Number: 2, Reason: "x"}, "nothing payout_not_found"},
		{settlement.UndoPayout{Number: 1, Reason: "x"}, "bank 0.90 merchant_payable -0.90"},
		{settlement.UndoPayout{Number: 1, Reason: "y"}, "nothing"},
		{settlement.UndoPayout{Number: 2, Reason: "x"}, "nothing"},
		{pay(80, 1), "nothing " + settlement.ErrPaidMeanwhile.Error()},
		{pay(80, 2), "merchant_payable 0.80 bank -0.80"},
		{settlement.UndoPayout{Number: 1, Reason: "x"}, "nothing"},
		{settlement.UndoPayout{Number: 3, Reason: "x"}, "bank 0.80 merchant_payable -0.80"},
	} {
		if got := do(step.command, owed); got != step.want {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
	state = settlement.Payouts{}
	do(settlement.RecordPayout{Payout: settlement.Payout{Route: "cards", Report: "r", Amount: 90, Currency: "RUB", Reference: "a"}}, domain.Sum{})
	if got := do(settlement.UndoPayout{Number: 1, Reason: "x"}, domain.Sum{}); got != "settlement_transit:cards 0.90 bank -0.90" {
		t.Errorf("what arrived is undone by %s", got)
	}
}

// after is time that passes between events.
type after domain.Instant

// Type implements domain.Event.
func (after) Type() string { return "after" }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestPayoutsInReconcile: what a report says was paid out is open until it has arrived, and the other
// way round; what is too much for one report may be for another.
func TestPayoutsInReconcile(t *testing.T) {
	t.Parallel()
	const day = domain.Instant(24 * 60 * 60 * 1000)
	report := func(id string, net domain.Amount) domain.Event {
		return settlement.ReportOpened{Report: settlement.Report{Route: "cards", Report: id, Summary: settlement.Summary{
			Totals: []settlement.Totals{{Currency: "RUB", Lines: 1, Gross: domain.SumOf(net), Net: domain.SumOf(net)}},
		}}}
	}
	arrived := func(id, currency string, amount domain.Amount) domain.Event {
		return settlement.PayoutArrived{Route: "cards", Report: id, Amount: amount, Currency: domain.Currency(currency), Reference: "x"}
	}
	undone := func(id string, amount domain.Amount) domain.Event {
		was := settlement.Payout{Route: "cards", Report: id, Amount: amount, Currency: "RUB", Reference: "x"}
		return settlement.PayoutUndone{Number: 1, Was: was, Reason: "x"}
	}
	for name, test := range map[string]struct {
		events []domain.Event
		open   string
	}{
		"it has arrived":             {[]domain.Event{report("a", 100), arrived("a", "RUB", 100)}, ""},
		"it arrived first":           {[]domain.Event{arrived("a", "RUB", 100), report("a", 100)}, ""},
		"in two parts":               {[]domain.Event{report("a", 100), arrived("a", "RUB", 40), arrived("a", "RUB", 60)}, ""},
		"it has not arrived":         {[]domain.Event{report("a", 100)}, "not_arrived cards:a 1.00 RUB 4"},
		"a part has not arrived":     {[]domain.Event{report("a", 100), arrived("a", "RUB", 40)}, "not_arrived cards:a 0.60 RUB 4"},
		"no report says so":          {[]domain.Event{arrived("a", "RUB", 100)}, "arrived_unreported cards:a -1.00 RUB 4"},
		"in another currency":        {[]domain.Event{report("a", 100), arrived("a", "EUR", 100)}, "arrived_unreported cards:a -1.00 EUR 4, not_arrived cards:a 1.00 RUB 4"},
		"undone":                     {[]domain.Event{report("a", 100), arrived("a", "RUB", 100), undone("a", 100)}, "not_arrived cards:a 1.00 RUB 4"},
		"undone, and recorded again": {[]domain.Event{report("a", 100), arrived("a", "RUB", 10), undone("a", 10), arrived("a", "RUB", 100)}, ""},
		"to a merchant, undone":      {[]domain.Event{settlement.PayoutUndone{Number: 1, Was: settlement.Payout{Amount: 5, Currency: "RUB", Reference: "x"}, Reason: "x"}}, ""},
		"a report below zero":        {[]domain.Event{report("a", -40)}, "arrived_unreported cards:a -0.40 RUB 4"},
		"taken from the next payout": {[]domain.Event{report("a", -40), report("b", 100), arrived("b", "RUB", 60)}, ""},
		"while another is on its way": {
			[]domain.Event{report("a", -40), report("b", 100), arrived("b", "RUB", 60), after(2 * day), report("c", 100)}, "",
		},
		"or has not arrived": {
			[]domain.Event{report("a", -40), report("b", 100), arrived("b", "RUB", 60), after(day), report("c", 100)}, "not_arrived cards:c 1.00 RUB 3",
		},
		"or is of another route": {
			[]domain.Event{report("a", -40), after(day), settlement.PayoutArrived{Route: "wallet", Report: "w", Amount: 40, Currency: "RUB", Reference: "x"}},
			"arrived_unreported cards:a -0.40 RUB 4, arrived_unreported wallet:w -0.40 RUB 3",
		},
	} {
		o := settlement.NewOpen(nil)
		at := domain.Instant(0)
		for _, e := range test.events {
			if pause, ok := e.(after); ok {
				at += domain.Instant(pause)
				continue
			}
			o.Fold("installation", "", at, e)
			if opened, ok := e.(settlement.ReportOpened); ok {
				o.Fold("installation", "", at, settlement.ReportClosed{Route: "cards", Report: opened.Report.Report})
			}
		}
		var got []string
		for _, d := range o.Differences(4*day, 3, "") {
			got = append(got, strings.Join([]string{d.What, d.Line, d.Amount.String(), string(d.Currency), strconv.Itoa(d.Days)}, " "))
		}
		if s := strings.Join(got, ", "); s != test.open {
			t.Errorf("%s: %q, want %q", name, s, test.open)
		}
		if rest := o.Differences(3*day-1, 3, ""); len(rest) > 0 {
			t.Errorf("%s: open too early: %+v", name, rest)
		}
	}
}
