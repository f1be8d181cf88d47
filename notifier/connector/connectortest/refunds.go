package connectortest

import (
	"slices"

	"payledger/domain"
	"payledger/notifier/connector"
)

// refund is a new refund of the attempt's money.
func (b *bench) refund(a connector.Attempt) connector.Refund {
	return connector.Refund{ID: b.ids.Next(), Attempt: a, AskedAt: a.BegunAt, Amount: a.Amount, Currency: a.Currency}
}

// asked asks for a refund and checks what holds of its every state.
func (b *bench) asked(r connector.Refund) connector.RefundState {
	b.Helper()
	s, err := b.connector.Refund(b.context(), r)
	b.must(err)
	b.refundState(s)
	if s.ID != r.ID || s.Phase != connector.Closed && (s.Reference == "" || s.Amount != r.Amount || s.Currency != r.Currency) {
		b.Fatalf("asked for %s %s as %s: %+v", r.Amount, r.Currency, r.ID, s)
	}
	return s
}

func (b *bench) refundState(s connector.RefundState) {
	b.Helper()
	if s.Phase != connector.Open && s.Phase != connector.Paid && s.Phase != connector.Closed || len(s.Reference) > domain.MaxReference {
		b.Errorf("refund: %+v", s)
	}
	b.reason(s.Phase, s.Reason)
}

// settled asks for a refund, ends it at the provider where that takes its time,
// and checks that asking again answers the end.
func (b *bench) settled(r connector.Refund, succeeds bool) connector.RefundState {
	b.Helper()
	first := b.asked(r)
	want := first.Phase
	if first.Phase == connector.Open {
		if !b.provider.SettleRefund(r.ID, succeeds) {
			b.Fatalf("the provider does not know the refund: %+v", first)
		}
		want = connector.Closed
		if succeeds {
			want = connector.Paid
		}
	}
	var s connector.RefundState
	for _, r.Reference = range []string{"", first.Reference} {
		s = b.asked(r)
		if s.Phase != want || s.Reference != first.Reference || succeeds && s.Phase != connector.Paid {
			b.Fatalf("settled: %+v; want %s of %+v", s, want, first)
		}
	}
	return s
}

// listed reads the refunds of an attempt by our ids; those made by hand have the
// zero id.
func (b *bench) listed(a connector.Attempt, want int) map[domain.ID]connector.RefundState {
	b.Helper()
	all, err := b.connector.Refunds(b.context(), a)
	b.must(err)
	if len(all) != want {
		b.Fatalf("the provider lists %+v; want %d refunds", all, want)
	}
	byID := make(map[domain.ID]connector.RefundState, len(all))
	for _, s := range all {
		b.refundState(s)
		if s.Reference == "" {
			b.Errorf("listed without a reference: %+v", s)
		}
		byID[s.ID] = s
	}
	return byID
}

// refunds: one refund for each id, found again in the list.
func refunds(b *bench) {
	a := b.paid()
	b.listed(a, 0)
	r := b.refund(a)
	s := b.settled(r, true)
	b.moved(b.provider.Returned(), a, true)
	if got := b.listed(a, 1)[r.ID]; got.Phase != connector.Paid || got.Reference != s.Reference || got.Amount != a.Amount || got.Currency != a.Currency {
		b.Errorf("listed: %+v; want %+v", got, s)
	}
	b.in(a, connector.Paid) // the attempt stays paid

	other := b.asked(b.refund(a))
	if other.Phase != connector.Closed || other.Reason != connector.ReasonRefundedAtProvider {
		b.Errorf("returned by another refund before: %+v", other)
	}
	b.moved(b.provider.Returned(), a, true)
}

// refundsAfterFailure: a refund that failed leaves the money where another one
// can return it.
func refundsAfterFailure(b *bench) {
	a := b.paid()
	failed := b.refund(a)
	if s := b.asked(failed); s.Phase != connector.Open {
		b.Skip("the provider ends each refund at once")
	}
	if s := b.settled(failed, false); s.Phase != connector.Closed {
		b.Errorf("failed: %+v", s)
	}
	b.moved(b.provider.Returned(), a, false)
	second := b.refund(a)
	b.settled(second, true)
	b.moved(b.provider.Returned(), a, true)
	all := b.listed(a, 2)
	if all[failed.ID].Phase != connector.Closed || all[second.ID].Phase != connector.Paid {
		b.Errorf("listed: %+v", all)
	}
}

// refundsThatComeBack: a refund that had succeeded is closed once the provider has its money back,
// and leaves it where another one can return it.
func refundsThatComeBack(b *bench) {
	a := b.paid()
	first := b.refund(a)
	s := b.settled(first, true)
	b.provider.Sent()
	if !b.provider.TakeBack(a.Reference) {
		b.Fatal("the provider has no refund to take back")
	}
	if got := b.listed(a, 1)[first.ID]; got.Phase != connector.Closed || got.Reason == "" || got.Reference != s.Reference {
		b.Errorf("listed: %+v; want %+v, closed", got, s)
	}
	for _, first.Reference = range []string{"", s.Reference} {
		if got := b.asked(first); got.Phase != connector.Closed {
			b.Errorf("asked again: %+v", got)
		}
	}
	b.moved(b.provider.Returned(), a, false)
	b.in(a, connector.Paid)
	b.settled(b.refund(a), true)
	b.moved(b.provider.Returned(), a, true)
}

// refundsByHand: money that was returned at the provider by hand is not returned again.
func refundsByHand(b *bench) {
	a := b.paid()
	if !b.provider.RefundByHand(a.Reference) {
		b.Fatal("the provider cannot return the money")
	}
	byHand := b.listed(a, 1)[domain.ID{}]
	if byHand.Phase != connector.Paid || byHand.Amount != a.Amount || byHand.Currency != a.Currency {
		b.Errorf("made by hand: %+v", byHand)
	}
	r := b.refund(a)
	for range 2 {
		if s := b.asked(r); s.Phase != connector.Closed || s.Reason != connector.ReasonRefundedAtProvider {
			b.Errorf("returned by hand before: %+v", s)
		}
	}
	b.moved(b.provider.Returned(), a, true)
	b.in(a, connector.Paid)
}

// disputes: each is read with its reason and time until it is decided, and there are notifications
// of it where the provider sends any.
func disputes(b *bench) {
	a := b.paid()
	listed := func(want ...domain.Outcome) connector.DisputeState {
		b.Helper()
		all, err := b.connector.Disputes(b.context(), a)
		b.must(err)
		var got []domain.Outcome
		for _, d := range all {
			got = append(got, d.Outcome)
			if d.Reference == "" || len(d.Reference) > domain.MaxReference || d.Amount != a.Amount || d.Currency != a.Currency || d.OpenedAt.IsZero() {
				b.Errorf("dispute: %+v", d)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			b.Fatalf("the provider tells of %+v; want %v", all, want)
		}
		return all[len(all)-1]
	}
	if all, err := b.connector.Disputes(b.context(), a); err != nil || len(all) != 0 {
		b.Errorf("without any: %+v, %v", all, err)
	}
	told := func() {
		b.Helper()
		if b.provider.Forged("any").Body != nil && !slices.ContainsFunc(b.sent(a), func(n connector.Notice) bool { return n.Disputes }) {
			b.Error("no notice of the dispute")
		}
	}
	b.sent(a)
	if !b.provider.Dispute(a.Reference) {
		b.Skip("the provider tells of no disputes")
	}
	told()
	if d := listed(domain.OutcomeDisputed); d.Reason != connector.ReasonCode(d.Reason) || d.EvidenceDueBy.IsZero() {
		b.Errorf("open: %+v", d)
	}
	b.provider.EndDispute(a.Reference, true)
	told()
	listed(domain.OutcomeDisputeWon)
	b.provider.Dispute(a.Reference)
	b.provider.EndDispute(a.Reference, false)
	listed(domain.OutcomeDisputeLost, domain.OutcomeDisputeWon)
	b.in(a, connector.Paid)
	b.moved(b.provider.Returned(), a, false)
}

// refundsWithoutKey: where the provider has forgotten the key of a refund, it is
// found by its id.
func refundsWithoutKey(b *bench) {
	a := b.paid()
	r := b.refund(a)
	first := b.asked(r)
	for _, settle := range []bool{false, true} {
		if settle {
			b.provider.SettleRefund(r.ID, true)
		}
		b.provider.ForgetKeys()
		if s := b.asked(r); s.Phase == connector.Closed || s.Reference != first.Reference {
			b.Errorf("asked again without its key: %+v; want %+v", s, first)
		}
		b.listed(a, 1)
	}
	b.moved(b.provider.Returned(), a, true)
}

// refundsNothing: an attempt without money has none to return.
func refundsNothing(b *bench) {
	a := b.begun(b.attempt())
	s, err := b.connector.Refund(b.context(), b.refund(a))
	b.clean(err)
	if err == nil && s.Phase != connector.Closed {
		b.Errorf("refunded without money: %+v", s)
	}
	b.listed(a, 0)
	b.moved(b.provider.Returned(), a, false)
}
