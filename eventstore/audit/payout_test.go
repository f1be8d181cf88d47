package audit

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/eventstore"
)

// pay appends an event to a stream of payouts, whatever it says.
func (w *world) pay(s eventstore.Stream, e domain.Event) {
	w.t.Helper()
	_, last, err := eventstore.Fold(w.t.Context(), w.ledger, s, settlement.Payouts{})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	c, err := w.ledger.Commit(s, last, e, eventstore.Order{EventID: w.ids.Next()})
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if _, err := eventstore.AppendOne(w.t.Context(), w.ledger.Store, c); err != nil {
		w.t.Fatalf("%v", err)
	}
}

func undone(number int, was settlement.Payout) settlement.PayoutUndone {
	return settlement.PayoutUndone{Number: number, Was: was, Reason: "x"}
}

// TestPayouts: verify decides payouts again, by what the merchant was owed then.
func TestPayouts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		pay func(w *world, owed domain.Amount, at uint64)
		why string // "": it is possible
	}{
		"possible": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.ArrivedStream("cards"), settlement.PayoutArrived{Route: "cards", Report: "r", Amount: 7, Currency: "RUB", Reference: "a"})
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed - 1, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: 1, Currency: "RUB", Reference: "b", AsOf: at + 2})
		}, ""},
		"a refund came between the books and the payout": {func(w *world, owed domain.Amount, at uint64) {
			w.refund(w.payments[len(w.payments)-1])
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at})
		}, ""},
		"after a refund": {func(w *world, owed domain.Amount, at uint64) {
			w.refund(w.payments[len(w.payments)-1])
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at + 1})
		}, "amount_too_large"},
		"too much": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed + 1, Currency: "RUB", Reference: "a", AsOf: at})
		}, "amount_too_large"},
		"in a currency in which nothing is owed": {func(w *world, _ domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: 1, Currency: "EUR", Reference: "a", AsOf: at})
		}, "amount_too_large"},
		"all of it twice, by the books of before": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "b", AsOf: at})
		}, "not between the payout before it"},
		"by books that were not there yet": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at + 1})
		}, "not between the payout before it"},
		"one reference twice": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: 1, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: 2, Currency: "RUB", Reference: "a", AsOf: at + 1})
		}, "payout_differs"},
		"undone, and paid again": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), undone(1, settlement.Payout{Amount: owed, Currency: "RUB", Reference: "a"}))
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at + 2})
			w.pay(eventstore.ArrivedStream("cards"), settlement.PayoutArrived{Route: "cards", Report: "r", Amount: 7, Currency: "RUB", Reference: "a"})
			w.pay(eventstore.ArrivedStream("cards"), undone(1, settlement.Payout{Route: "cards", Report: "r", Amount: 7, Currency: "RUB", Reference: "a"}))
		}, ""},
		"undone twice": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at})
			for range 2 {
				w.pay(eventstore.PaidStream(w.project), undone(1, settlement.Payout{Amount: owed, Currency: "RUB", Reference: "a"}))
			}
		}, "there was nothing left to do"},
		"undone, and it was more": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed - 1, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), undone(1, settlement.Payout{Amount: owed, Currency: "RUB", Reference: "a"}))
		}, "members that the rules do not lead to"},
		"undone, and it never was": {func(w *world, owed domain.Amount, _ uint64) {
			w.pay(eventstore.PaidStream(w.project), undone(1, settlement.Payout{Amount: owed, Currency: "RUB", Reference: "a"}))
		}, "payout_not_found"},
		"undone without a reason": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutToMerchant{Amount: owed, Currency: "RUB", Reference: "a", AsOf: at})
			w.pay(eventstore.PaidStream(w.project), settlement.PayoutUndone{Number: 1, Was: settlement.Payout{Amount: owed, Currency: "RUB", Reference: "a"}})
		}, "reason: invalid_value"},
		"undone in another's stream": {func(w *world, _ domain.Amount, _ uint64) {
			w.pay(eventstore.ArrivedStream("cards"), undone(1, settlement.Payout{Route: "acme", Report: "r", Amount: 7, Currency: "RUB", Reference: "a"}))
		}, "belongs to the stream of acme"},
		"in another's stream": {func(w *world, owed domain.Amount, at uint64) {
			w.pay(eventstore.ArrivedStream("cards"), settlement.PayoutArrived{Route: "acme", Report: "r", Amount: 7, Currency: "RUB", Reference: "a"})
		}, "belongs to the stream of acme"},
		"another event": {func(w *world, _ domain.Amount, _ uint64) {
			w.pay(eventstore.PaidStream(w.project), settlement.ReportClosed{Route: "cards", Report: "r"})
		}, "no payout"},
	} {
		w := newWorld(t)
		id := w.create(false)
		w.route(id)
		w.signal(id, domain.OutcomePaid, "x", nil)
		records := w.records()
		test.pay(w, w.states[id].Amount, uint64(records[len(records)-1].Position))
		found := ""
		for _, f := range w.check(w.records()).Findings {
			found += f.Detail + "\n"
		}
		if test.why == "" && found != "" || !strings.Contains(found, test.why) {
			t.Errorf("%s: %q, want %q", name, found, test.why)
		}
	}
}

// TestPayoutsAfterMuch: what was owed is known only so long.
func TestPayoutsAfterMuch(t *testing.T) {
	t.Parallel()
	p := newPayouts()
	for n := range eventstore.Position(3 * maxDebts) {
		i := item{event: settlement.PayoutToMerchant{Amount: 1, Currency: "RUB", Reference: "a"}}
		i.record.Stream.Project, i.record.Position = "prj", n+1
		p.book(&i)
	}
	o := p.owed[owedTo{"prj", "RUB"}]
	if then, known := o.at(2 * maxDebts); !known || then != domain.SumOf(-2*maxDebts) {
		t.Errorf("%s, %v", then, known)
	}
	if _, known := o.at(1); known || len(o.last) > 2*maxDebts {
		t.Errorf("it is known for ever, in %d postings", len(o.last))
	}
}
