package domain_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"payledger/domain"
)

// dispute is a signal on the dispute D of a part of the payment.
func dispute(o domain.Outcome) domain.Signal {
	s := word(o, "D")
	s.Amount = sum / 3
	return s
}

func disputed() []domain.Event {
	return append(paid(), domain.PaymentDisputed{Reason: "fraudulent", Signal: dispute("disputed")})
}

func disputeWon() []domain.Event {
	return append(disputed(), domain.PaymentDisputeWon{Opened: true, Signal: dispute("dispute_won")})
}

func disputeLost() []domain.Event {
	return append(disputed(), domain.PaymentDisputeLost{Opened: true, Signal: dispute("dispute_lost")})
}

func paidBack() []domain.Event {
	return append(disputeLost(), domain.PaymentDisputeWon{Opened: true, Lost: true, Signal: dispute("dispute_won")})
}

func TestDisputes(t *testing.T) {
	t.Parallel()
	opens, wins, loses := dispute("disputed"), dispute("dispute_won"), dispute("dispute_lost")
	all := func(name string, past []domain.Event, want func(domain.Signal) decision) (rows []decision) {
		for _, s := range []domain.Signal{opens, wins, loses} {
			row := want(s)
			row.name, row.given, row.when = name+", "+string(s.Outcome), past, signalled(s)
			rows = append(rows, row)
		}
		return rows
	}
	fails := func(err error) func(domain.Signal) decision {
		return func(domain.Signal) decision { return decision{wantErr: err} }
	}
	refuses := func(reason string) func(domain.Signal) decision {
		return func(s domain.Signal) decision { return decision{want: refusedFor(reason, s)} }
	}
	is := func(opened, won, lost domain.Event) func(domain.Signal) decision {
		return func(s domain.Signal) decision {
			return decision{want: map[domain.Outcome]domain.Event{"disputed": opened, "dispute_won": won, "dispute_lost": lost}[s.Outcome]}
		}
	}
	tooMuch := func(s *domain.Signal) { s.Amount = sum + 1 }
	euros := func(s *domain.Signal) { s.Currency = "EUR" }
	many := paid()
	for i := range domain.MaxDisputes {
		many = append(many, domain.PaymentDisputed{Signal: with(opens, func(s *domain.Signal) { s.Reference = fmt.Sprint("other", i); s.Amount = 1 })})
	}
	bare := append(paid(), domain.PaymentDisputed{Signal: opens})
	bare = slices.Clip(bare)
	more := func(reason string, due domain.Instant) domain.Event {
		return domain.PaymentDisputed{Opened: true, Reason: reason, EvidenceDueBy: due, Signal: opens}
	}
	due := domain.ApplySignal{Signal: opens, Reason: "fraudulent", EvidenceDueBy: expiresAt}
	const final = domain.ReasonFinalStatus
	runDecisions(t, slices.Concat(
		all("missing", missing(), fails(&domain.Refusal{Code: domain.PaymentNotFound})),
		all("created", created(), fails(&domain.TooEarlyError{})),
		all("awaiting", awaiting(), fails(&domain.TooEarlyError{Undecided: true})),
		all("expired", expired(), refuses(domain.ReasonNotPaid)),
		all("failed", failed(), refuses(domain.ReasonNotPaid)),
		all("paid", paid(), is(domain.PaymentDisputed{Signal: opens}, domain.PaymentDisputeWon{Signal: wins}, domain.PaymentDisputeLost{Signal: loses})),
		all("refunded", refunded(), is(domain.PaymentDisputed{Signal: opens}, domain.PaymentDisputeWon{Signal: wins}, domain.PaymentDisputeLost{Signal: loses})),
		all("open", disputed(), is(nil, domain.PaymentDisputeWon{Opened: true, Signal: wins}, domain.PaymentDisputeLost{Opened: true, Signal: loses})),
		all("won", disputeWon(), is(nil, nil, refusedFor(final, loses))),
		all("lost", disputeLost(), is(nil, domain.PaymentDisputeWon{Opened: true, Lost: true, Signal: wins}, nil)),
		all("lost before it was heard to open", append(paid(), domain.PaymentDisputeLost{Signal: loses}), is(refusedFor(final, opens), domain.PaymentDisputeWon{Opened: true, Lost: true, Signal: wins}, nil)),
		all("won after it was lost", paidBack(), is(nil, nil, nil)),
		all("won before it was heard to be lost", append(disputeWon(), refusedFor(final, loses)), is(nil, nil, nil)),
		all("too many", many, refuses(domain.ReasonTooManyDisputes)),
		[]decision{
			{name: "with its reason and time", given: paid(), when: due, want: domain.PaymentDisputed{Reason: "fraudulent", EvidenceDueBy: expiresAt, Signal: opens}},
			{name: "heard again, with its time", given: disputed(), when: due, want: more("fraudulent", expiresAt)},
			{name: "heard again, with its reason and time", given: bare, when: due, want: more("fraudulent", expiresAt)},
			{name: "heard again, with its reason", given: bare, when: domain.ApplySignal{Signal: opens, Reason: "duplicate"}, want: more("duplicate", 0)},
			{name: "heard again, with another reason", given: disputed(), when: domain.ApplySignal{Signal: opens, Reason: "duplicate"}},
			{name: "heard again, with another reason and a time", given: disputed(), when: domain.ApplySignal{Signal: opens, Reason: "duplicate", EvidenceDueBy: expiresAt}, want: more("fraudulent", expiresAt)},
			{name: "heard again, with nothing new", given: append(disputed(), more("fraudulent", expiresAt)), when: domain.ApplySignal{Signal: opens, Reason: "fraudulent", EvidenceDueBy: createdAt}},
			{name: "heard again when it is lost", given: append(bare, domain.PaymentDisputeLost{Opened: true, Signal: loses}), when: due},
			{name: "ends after it was heard again", given: append(bare, more("fraudulent", expiresAt)), when: signalled(wins), want: domain.PaymentDisputeWon{Opened: true, Signal: wins}},
			{name: "of more than was paid", given: paid(), when: signalled(with(opens, tooMuch)), want: refusedFor(domain.ReasonWrongAmount, with(opens, tooMuch))},
			{name: "of other money", given: paid(), when: signalled(with(opens, euros)), want: refusedFor(domain.ReasonWrongAmount, with(opens, euros))},
			{name: "ends with another amount", given: disputed(), when: signalled(with(wins, func(s *domain.Signal) { s.Amount++ })), want: refusedFor(domain.ReasonWrongAmount, with(wins, func(s *domain.Signal) { s.Amount++ }))},
			{name: "opens again with another amount", given: disputed(), when: signalled(with(opens, func(s *domain.Signal) { s.Amount++ })), want: refusedFor(domain.ReasonReferenceConflict, with(opens, func(s *domain.Signal) { s.Amount++ }))},
			{name: "by another route", given: paid(), when: signalled(with(opens, func(s *domain.Signal) { s.Route = "bank" })), want: refusedFor(domain.ReasonWrongRoute, with(opens, func(s *domain.Signal) { s.Route = "bank" }))},
		},
	))
}

// TestDisputeIsFilled: what is heard later of an open dispute is kept with it, once, and never overwritten.
func TestDisputeIsFilled(t *testing.T) {
	t.Parallel()
	without, opens := dispute("disputed"), dispute("disputed")
	without.StartedAt, opens.StartedAt = 0, createdAt
	p := fold(append(paid(), domain.PaymentDisputed{Signal: without}))
	for _, c := range []domain.ApplySignal{
		{Signal: opens, Reason: "fraudulent", EvidenceDueBy: expiresAt},
		{Signal: opens, Reason: "duplicate", EvidenceDueBy: createdAt},
	} {
		e, err := p.Decide(c)
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			continue
		}
		if err := p.Redecide(e, domain.Recorded{Version: 2}); err != nil {
			t.Error(err)
		}
		signals := len(p.Signals)
		if p = p.Evolve(e); len(p.Signals) != signals {
			t.Errorf("it remembers %d signals, before %d", len(p.Signals), signals)
		}
	}
	want := domain.Dispute{Reference: "D", Status: domain.DisputeOpen, Amount: sum / 3, Reason: "fraudulent", OpenedAt: createdAt, EvidenceDueBy: expiresAt}
	if d, _ := p.Dispute("D"); len(p.Disputes) != 1 || d != want {
		t.Errorf("%+v, want %+v", p.Disputes, want)
	}
}

func TestDisputedPaymentsAreNotRefunded(t *testing.T) {
	t.Parallel()
	refund := domain.CreateRefund{At: expiresAt, RefundID: id(3)}
	want := refundCreated(3)
	want.CreatedAt = expiresAt
	refused := &domain.Refusal{Code: domain.PaymentDisputedCode}
	opens := domain.PaymentDisputed{Signal: dispute("disputed")}
	runDecisions(t, []decision{
		{name: "open", given: disputed(), when: refund, wantErr: refused},
		{name: "lost", given: disputeLost(), when: refund, wantErr: refused},
		{name: "won", given: disputeWon(), when: refund, want: want},
		{name: "won after it was lost", given: paidBack(), when: refund, want: want},
		{name: "refunded before", given: append(refunded(), opens), when: refund, wantErr: refused},
		{name: "came back before", given: append(cameBack(), opens), when: refund, wantErr: refused},
		{name: "came back while it is open", given: append(refunded(), opens, cameBack()[len(refunded())]), when: refund, wantErr: refused},
	})
	for want, past := range map[domain.DisputeStatus][]domain.Event{"": paid(), "open": disputed(), "won": paidBack(), "lost": disputeLost()} {
		p := fold(past)
		if p.DisputeStatus() != want || (p.Disputed() > 0) != (want == "open" || want == "lost") || p.Status != domain.Paid {
			t.Errorf("%s: %s, %s of a payment that is %s", want, p.DisputeStatus(), p.Disputed(), p.Status)
		}
	}
}

// TestRefusalsOfBeforeStayPossible: below version 3 what came back was refused.
func TestRefusalsOfBeforeStayPossible(t *testing.T) {
	t.Parallel()
	returned := append(lateFunds(), returnCreated(2), domain.ReturnSucceeded{ReturnID: id(2), Signal: refundWord("succeeded", "R", id(2))})
	for name, c := range map[string]struct {
		past []domain.Event
		s    domain.Signal
	}{
		"a lost dispute is won": {disputeLost(), dispute("dispute_won")},
		"a return comes back":   {returned, refundWord("returned", "R", id(2))},
	} {
		e := refusedFor(domain.ReasonFinalStatus, c.s)
		if err := fold(c.past).Redecide(e, domain.Recorded{Version: 2}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := fold(c.past).Redecide(e, domain.Recorded{Version: 3}); err == nil {
			t.Errorf("%s: it is refused now", name)
		}
	}
}

// TestBooksInAnyOrder plans a payment's life after it was paid: refunds of which some come back, and
// disputes. Its signals come in any order, some twice; those that come too early come again. The
// books say what was planned.
func TestBooksInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		books := make(map[book]domain.Sum)
		want := map[domain.Account]domain.Amount{domain.AcquirerReceivable("sandbox"): sum, domain.MerchantPayable: -sum}
		move := func(from, to domain.Account, amount domain.Amount) {
			want[from] += amount
			want[to] -= amount
		}
		var signals []domain.Signal
		p := newPayment()
		apply := func(c domain.PaymentCommand) error {
			e, err := p.Decide(c)
			if err != nil || e == nil {
				return err
			}
			before := p
			p = p.Evolve(e)
			checkForward(t, before, p)
			lines := domain.Postings(e)
			checkBalanced(t, lines)
			for _, l := range lines {
				books[book{l.Account, l.Currency}] = books[book{l.Account, l.Currency}].Add(l.Amount)
			}
			return nil
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(apply(domain.CreatePayment{At: createdAt, Amount: sum, Currency: "RUB", Settings: domain.DefaultSettings(), Routing: &domain.Routing{Table: domain.SandboxTable()}}))
		pays := word("paid", "P")
		refund := rapid.SampledFrom([]string{"none", "pending", "failed", "succeeded", "returned"}).Draw(t, "refund")
		if refund == "none" {
			signals = append(signals, pays)
		} else {
			must(apply(domain.ApplySignal{Signal: pays}))
			must(apply(domain.CreateRefund{At: createdAt, RefundID: id(2)}))
		}
		receivable := domain.AcquirerReceivable("sandbox")
		switch refund {
		case "pending":
			move(domain.MerchantPayable, domain.RefundsInFlight, sum)
		case "failed":
			signals = append(signals, refundWord("failed", "R", id(2)))
		case "succeeded":
			signals = append(signals, refundWord("succeeded", "R", id(2)))
			move(domain.MerchantPayable, receivable, sum)
		case "returned":
			signals = append(signals, refundWord("succeeded", "R", id(2)), refundWord("returned", "R", id(2)))
		}
		late := rapid.SampledFrom([]string{"none", "waiting", "pending", "failed", "succeeded", "returned", "again"}).Draw(t, "late funds")
		if late != "none" {
			must(apply(domain.ApplySignal{Signal: pays}))
			must(apply(domain.ApplySignal{Signal: word("paid", "L")}))
			move(receivable, domain.Suspense, sum)
		}
		if late != "none" && late != "waiting" {
			must(apply(domain.CreateReturn{At: createdAt, ReturnID: id(3), Reference: "L"}))
		}
		switch late {
		case "pending":
			move(domain.Suspense, domain.RefundsInFlight, sum)
		case "failed":
			signals = append(signals, refundWord("failed", "B", id(3)))
		case "succeeded":
			signals = append(signals, refundWord("succeeded", "B", id(3)))
			move(domain.Suspense, receivable, sum)
		case "returned":
			signals = append(signals, refundWord("succeeded", "B", id(3)), refundWord("returned", "B", id(3)))
		case "again":
			must(apply(domain.ApplySignal{Signal: refundWord("succeeded", "B", id(3))}))
			must(apply(domain.ApplySignal{Signal: refundWord("returned", "B", id(3))}))
			must(apply(domain.CreateReturn{At: createdAt, ReturnID: id(4), Reference: "L"}))
			signals = append(signals, refundWord("succeeded", "B2", id(4)))
			move(domain.Suspense, receivable, sum)
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "disputes") {
			d := word("disputed", fmt.Sprint("D", i))
			d.Amount = domain.Amount(rapid.Int64Range(1, int64(sum)).Draw(t, "disputed"))
			signals = append(signals, d)
			switch end := rapid.SampledFrom([]domain.Outcome{"disputed", "dispute_won", "dispute_lost", "paid back"}).Draw(t, "end"); end {
			case "disputed":
				move(domain.MerchantPayable, domain.DisputesHeld, d.Amount)
			case "dispute_lost":
				move(domain.MerchantPayable, receivable, d.Amount)
				fallthrough
			case "dispute_won":
				d.Outcome = end
				signals = append(signals, d)
			default:
				won := d
				d.Outcome, won.Outcome = domain.OutcomeDisputeLost, domain.OutcomeDisputeWon
				signals = append(signals, d, won)
			}
		}
		signals = append(signals, rapid.SliceOfN(rapid.SampledFrom(append(signals, pays)), 0, 5).Draw(t, "again")...)
		for queue := rapid.Permutation(signals).Draw(t, "order"); len(queue) > 0; queue = queue[1:] {
			err := apply(domain.ApplySignal{Signal: queue[0]})
			if _, early := errors.AsType[*domain.TooEarlyError](err); early {
				queue = append(queue, queue[0])
				continue
			}
			must(err)
		}
		for account, amount := range want {
			if got := books[book{account, "RUB"}]; got != domain.SumOf(amount) {
				t.Fatalf("%s: %s, planned %s: %s", account, got, amount, cmp.Diff(domain.Payment{}, p))
			}
		}
	})
}
