package domain_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
)

func line(a domain.Account, c domain.Currency, minor domain.Amount) domain.Posting {
	return domain.Posting{Account: a, Currency: c, Amount: domain.SumOf(minor)}
}

var sumsEqual = cmp.Comparer(func(a, b domain.Sum) bool { return a == b })

func TestPostings(t *testing.T) {
	t.Parallel()
	late := word("paid", "L")
	late.Amount, late.Currency, late.Route = 77, "USD", "bank"
	for name, c := range map[string]struct {
		event domain.Event
		want  []domain.Posting
	}{
		"paid": {
			domain.PaymentPaid{Signal: word("paid", "P")},
			[]domain.Posting{line("acquirer_receivable:sandbox", "RUB", sum), line("merchant_payable", "RUB", -sum)},
		},
		"late funds are the signal's": {
			domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: late},
			[]domain.Posting{line("acquirer_receivable:bank", "USD", 77), line("suspense", "USD", -77)},
		},
		"refund created": {
			refundCreated(2),
			[]domain.Posting{line("merchant_payable", "RUB", sum), line("refunds_in_flight", "RUB", -sum)},
		},
		"refund succeeded": {
			domain.RefundSucceededEvent{RefundID: id(2), Signal: refundWord("succeeded", "R", id(2))},
			[]domain.Posting{line("refunds_in_flight", "RUB", sum), line("acquirer_receivable:sandbox", "RUB", -sum)},
		},
		"refund failed": {
			domain.RefundFailedEvent{RefundID: id(2), Signal: refundWord("failed", "R", id(2))},
			[]domain.Posting{line("refunds_in_flight", "RUB", sum), line("merchant_payable", "RUB", -sum)},
		},
		"returned by hand": {
			domain.PaymentRefundedAtProvider{Route: "sandbox", Amount: sum, Currency: "RUB"},
			[]domain.Posting{line("suspense", "RUB", sum), line("acquirer_receivable:sandbox", "RUB", -sum)},
		},
		"settled against the merchant": {
			settledAs("P", domain.MerchantPayable, domain.Suspense, sum),
			[]domain.Posting{line("merchant_payable", "RUB", sum), line("suspense", "RUB", -sum)},
		},
		"settled against the operator": {
			settledAs("L", domain.Suspense, domain.Operator, sum),
			[]domain.Posting{line("suspense", "RUB", sum), line("operator", "RUB", -sum)},
		},
		"return created": {
			domain.ReturnCreated{ReturnID: id(2), Reference: "P", Amount: sum, Currency: "RUB"},
			[]domain.Posting{line("suspense", "RUB", sum), line("refunds_in_flight", "RUB", -sum)},
		},
		"refund returned": {
			domain.RefundReturned{RefundID: id(2), Signal: refundWord("returned", "R", id(2))},
			[]domain.Posting{line("acquirer_receivable:sandbox", "RUB", sum), line("merchant_payable", "RUB", -sum)},
		},
		"disputed": {
			domain.PaymentDisputed{Signal: word("disputed", "D")},
			[]domain.Posting{line("merchant_payable", "RUB", sum), line("disputes_held", "RUB", -sum)},
		},
		"disputed, and open before": {domain.PaymentDisputed{Opened: true, Reason: "fraudulent", Signal: word("disputed", "D")}, nil},
		"dispute won": {
			domain.PaymentDisputeWon{Opened: true, Signal: word("dispute_won", "D")},
			[]domain.Posting{line("disputes_held", "RUB", sum), line("merchant_payable", "RUB", -sum)},
		},
		"dispute lost": {
			domain.PaymentDisputeLost{Opened: true, Signal: word("dispute_lost", "D")},
			[]domain.Posting{line("disputes_held", "RUB", sum), line("acquirer_receivable:sandbox", "RUB", -sum)},
		},
		"dispute won that was lost": {
			domain.PaymentDisputeWon{Opened: true, Lost: true, Signal: word("dispute_won", "D")},
			[]domain.Posting{line("acquirer_receivable:sandbox", "RUB", sum), line("merchant_payable", "RUB", -sum)},
		},
		"dispute won that nobody heard of": {domain.PaymentDisputeWon{Signal: word("dispute_won", "D")}, nil},
		"dispute lost that nobody heard of": {
			domain.PaymentDisputeLost{Signal: word("dispute_lost", "D")},
			[]domain.Posting{line("merchant_payable", "RUB", sum), line("acquirer_receivable:sandbox", "RUB", -sum)},
		},
		"return succeeded": {
			domain.ReturnSucceeded{ReturnID: id(2), Signal: refundWord("succeeded", "R", id(2))},
			[]domain.Posting{line("refunds_in_flight", "RUB", sum), line("acquirer_receivable:sandbox", "RUB", -sum)},
		},
		"return failed": {
			domain.ReturnFailed{ReturnID: id(2), Signal: refundWord("failed", "R", id(2))},
			[]domain.Posting{line("refunds_in_flight", "RUB", sum), line("suspense", "RUB", -sum)},
		},
		"return came back": {
			domain.ReturnFailed{ReturnID: id(2), Returned: true, Signal: refundWord("returned", "R", id(2))},
			[]domain.Posting{line("acquirer_receivable:sandbox", "RUB", sum), line("suspense", "RUB", -sum)},
		},
		"refused":         {domain.PaymentSignalRefused{Reason: domain.ReasonWrongRoute, Signal: word("paid", "P")}, nil},
		"created":         {paymentCreated(), nil},
		"nothing happens": {nil, nil},
	} {
		if diff := cmp.Diff(c.want, domain.Postings(c.event), sumsEqual); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestEveryEventHasAMeaningForTheBooks lists every event type, so that a new one
// must be added here too.
func TestEveryEventHasAMeaningForTheBooks(t *testing.T) {
	t.Parallel()
	moves := map[string]bool{
		"payment.created": false, "payment.route_assigned": false, "payment.details_erased": false, "payment.paid": true, "payment.expired": false,
		"payment.failed": false, "payment.signal_refused": false, "payment.late_funds": true,
		"payment.attempt_begun": false, "payment.attempt_offered": false, "payment.attempt_failed": false,
		"payment.refunded_at_provider": true, "payment.suspense_settled": true, "return.created": true, "return.succeeded": true, "return.failed": true,
		"refund.created": true, "refund.succeeded": true, "refund.failed": true, "refund.returned": true,
		"payment.dispute_won": true, "payment.dispute_lost": true,
		"payment.disputed": false, // the sample is of one that was open before
	}
	for _, e := range domain.Events() {
		want, named := moves[e.Name]
		if !named {
			t.Errorf("%s: does it move money? Say so in postings.go and here", e.Name)
		}
		lines := domain.Postings(e.Sample)
		if (len(lines) > 0) != want {
			t.Errorf("%s: %d postings", e.Name, len(lines))
		}
		checkBalanced(t, lines)
		delete(moves, e.Name)
	}
	if len(moves) > 0 {
		t.Errorf("no events: %v", moves)
	}
}

type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkBalanced fails unless the lines of one event add up to nothing in each
// currency and name each account once, the debit first.
func checkBalanced(t failer, lines []domain.Posting) {
	t.Helper()
	total := make(map[domain.Currency]domain.Sum)
	seen := make(map[domain.Posting]bool)
	for i, l := range lines {
		total[l.Currency] = total[l.Currency].Add(l.Amount)
		if !l.Account.Known() || l.Currency == "" || l.Amount.Sign() == 0 {
			t.Fatalf("%+v says nothing", l)
		}
		if i == 0 && l.Amount.Sign() < 0 {
			t.Fatalf("the credit comes first: %+v", lines)
		}
		l.Amount = domain.Sum{}
		if seen[l] {
			t.Fatalf("two lines of one account: %+v", lines)
		}
		seen[l] = true
	}
	for c, s := range total {
		if s != (domain.Sum{}) {
			t.Fatalf("%s %s are left over: %+v", s, c, lines)
		}
	}
}

type book struct {
	account  domain.Account
	currency domain.Currency
}

// TestBooksOfAnyPayment applies random commands to a payment and checks its books
// after every event.
func TestBooksOfAnyPayment(t *testing.T) {
	t.Parallel()
	settled := 0
	rapid.Check(t, func(t *rapid.T) {
		p, next := newPayment(), byte(2)
		books := make(map[book]domain.Sum)
		post := func(e domain.Event) {
			lines := domain.Postings(e)
			checkBalanced(t, lines)
			for _, l := range lines {
				books[book{l.Account, l.Currency}] = books[book{l.Account, l.Currency}].Add(l.Amount)
			}
		}
		if rapid.Bool().Draw(t, "starts paid") {
			for _, e := range paid() {
				p = p.Evolve(e)
				post(e)
			}
		}
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			e, err := p.Decide(drawCommand(t, id(next)))
			if err != nil || e == nil {
				continue
			}
			p = p.Evolve(e)
			post(e)
			switch e.(type) {
			case domain.RefundCreated, domain.ReturnCreated:
				next++
			}
			checkBooks(t, p, books)
		}
		if len(p.Refunds) > 0 && p.Refunds[len(p.Refunds)-1].Status == "succeeded" {
			settled++
		}
	})
	if settled == 0 && !testing.Short() { // which makes a few payments only
		t.Error("no payment was ever refunded")
	}
}

// checkBooks compares the books with the balances that follow from the payment's
// state, account by account.
func checkBooks(t *rapid.T, p domain.Payment, books map[book]domain.Sum) {
	want := make(map[book]domain.Sum)
	move := func(debit, credit domain.Account, amount domain.Amount, c domain.Currency) {
		want[book{debit, c}] = want[book{debit, c}].Add(domain.SumOf(amount))
		want[book{credit, c}] = want[book{credit, c}].Add(domain.SumOf(-amount))
	}
	receivable := domain.AcquirerReceivable(p.Route)
	if p.Status == "paid" {
		owed := domain.MerchantPayable
		for _, r := range p.Refunds {
			switch {
			case r.Status == "pending":
				owed = domain.RefundsInFlight
			case r.Status == "succeeded" && !r.Returned:
				owed = receivable // nothing is left
			}
		}
		move(receivable, owed, p.Amount, p.Currency)
	}
	// Every other signal that brought money over the payment's route is late.
	first := true
	for _, s := range p.Signals {
		if s.Outcome != "paid" || s.RefundID != nil || s.Route != p.Route || s.StartedAt/1000 < p.CreatedAt/1000 || conflicts(p, s) {
			continue
		}
		if p.Status == "paid" && first && s.Amount == p.Amount && s.Currency == p.Currency && s.StartedAt <= p.ExpiresAt {
			first = false
			continue
		}
		move(receivable, domain.Suspense, s.Amount, s.Currency)
	}
	for _, d := range p.Disputes {
		switch d.Status {
		case "open":
			move(domain.MerchantPayable, domain.DisputesHeld, d.Amount, p.Currency)
		case "lost":
			move(domain.MerchantPayable, receivable, d.Amount, p.Currency)
		}
	}
	for _, r := range p.Returns {
		switch {
		case r.Status == "pending":
			move(domain.Suspense, domain.RefundsInFlight, r.Amount, r.Currency)
		case r.Status == "succeeded" && !r.Returned:
			move(domain.Suspense, receivable, r.Amount, r.Currency)
		}
	}
	for _, r := range p.ProviderRefunds {
		move(domain.Suspense, receivable, r.Amount, r.Currency)
	}
	for b, s := range books {
		if s != want[b] {
			t.Fatalf("%s %s: %s in the books, %s by the state %+v", b.account, b.currency, s, want[b], p)
		}
		if len(p.ProviderRefunds) > 0 || p.Disputed() > 0 {
			continue // the provider has given away what may not be its to give
		}
		if b.account.Route() == "" && s.Sign() > 0 || b.account.Route() != "" && s.Sign() < 0 {
			t.Fatalf("%s %s has the wrong side: %s", b.account, b.currency, s)
		}
	}
}

// conflicts reports whether an earlier signal of the route has the same outcome and
// reference, and was not refused for its start: the later one was refused.
func conflicts(p domain.Payment, s domain.Signal) bool {
	for _, o := range p.Signals {
		if o.Reference == s.Reference && o.Outcome == s.Outcome && o.RefundID == nil && o.Route == s.Route && o.StartedAt/1000 >= p.CreatedAt/1000 {
			return o != s
		}
	}
	return false
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	for a, known := range map[domain.Account]bool{
		domain.MerchantPayable: true, domain.RefundsInFlight: true, domain.Suspense: true, domain.DisputesHeld: true, "acquirer_receivable:bank-1": true,
		"acquirer_receivable:": false, "acquirer_receivable": false, "acquirer_receivable:A": false, "cash": false, "": false,
	} {
		if a.Known() != known {
			t.Errorf("%q: %v", a, a.Known())
		}
	}
	if got := domain.AcquirerReceivable("bank").Route(); got != "bank" {
		t.Errorf("route %q", got)
	}
	if got := domain.Suspense.Route(); got != "" {
		t.Errorf("route %q", got)
	}
}
