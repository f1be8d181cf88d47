package check

import (
	"slices"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
)

// The cases of attempts that the adapter's customer has decided on.

func readsPaid(j *judge) {
	a := j.paid()
	if s := must(j.begin(a, connector.Paid)); s.Amount != a.Amount || s.Currency != a.Currency {
		fail("begin answers %s %s, want %s %s", s.Amount, s.Currency, a.Amount, a.Currency)
	}
}

func readsDeclined(j *judge) {
	a := j.begun()
	j.play(a, adapter.Declined)
	must(j.read(a, connector.Closed, connector.Open))
}

func cancelsTooLate(j *judge) {
	a := j.paid()
	for range 2 {
		must(j.cancel(a, connector.Paid))
	}
	must(j.read(a, connector.Paid))
}

func refundsNothing(j *judge) {
	if s := j.refund(j.refundOf(j.begun())); s.Phase != connector.Closed {
		fail("the refund of an unpaid attempt is %s, want it refused", s.Phase)
	}
}

// listed checks that read lists the refund, and no other that returns money.
func (j *judge) listed(r connector.Refund, reference string) {
	found := 0
	for _, one := range j.refunds(r.Attempt) {
		switch {
		case one.Phase == connector.Closed:
		case one.ID != r.ID || one.Reference != reference || one.Amount != r.Amount:
			fail("read lists the refund %s of %s %s, which was not asked for", one.Reference, one.Amount, one.Currency)
		default:
			found++
		}
	}
	if found != 1 {
		fail("read lists the refund %d times, want it once", found)
	}
}

// refunded asks for a refund that is not refused, and returns its reference.
func (j *judge) refunded(r connector.Refund) (reference string) {
	s := j.refund(r)
	switch {
	case s.Phase == connector.Closed:
		fail("the refund of a paid attempt is closed (%s)", s.Reason)
	case s.Amount != r.Amount || s.Currency != r.Currency:
		fail("the refund is of %s %s, want %s %s", s.Amount, s.Currency, r.Amount, r.Currency)
	}
	return s.Reference
}

func refundsOnce(j *judge) {
	r := j.refundOf(j.paid())
	j.listed(r, together(func() string { return j.refunded(r) }))
}

func refundsAfterLostAnswer(j *judge) {
	r := j.refundOf(j.paid())
	body := must(adapter.Encode(adapter.Refund, r.Attempt, &r, ""))
	_, _ = j.send(message{path: adapter.Refund, body: body, leave: true}) // its answer is lost
	j.listed(r, j.refunded(r))
}

func refundsNoSecond(j *judge) {
	r := j.refundOf(j.paid())
	first := j.refunded(r)
	switch second := j.refund(j.refundOf(r.Attempt)); {
	case second.Phase != connector.Closed:
		fail("a second refund of the same money is %s, want it closed", second.Phase)
	case second.Reason != connector.ReasonRefundedAtProvider:
		fail("a second refund of the same money is closed as %s, want %s", second.Reason, connector.ReasonRefundedAtProvider)
	}
	j.listed(r, first)
}

func refundsAfterReturn(j *judge) {
	r := j.refundOf(j.paid())
	j.refunded(r)
	j.play(r.Attempt, adapter.Returned)
	all := j.refunds(r.Attempt)
	if i := slices.IndexFunc(all, func(s connector.RefundState) bool { return s.ID == r.ID }); i < 0 || all[i].Phase != connector.Closed {
		fail("read lists the refunds %+v, want the one whose money came back closed", all)
	}
	j.refunded(j.refundOf(r.Attempt))
}

func tellsOfDisputes(j *judge) {
	for _, ends := range []struct {
		outcome adapter.Outcome
		is      domain.Outcome
	}{{adapter.DisputeWon, domain.OutcomeDisputeWon}, {adapter.DisputeLost, domain.OutcomeDisputeLost}} {
		a, reference := j.paid(), ""
		for i, is := range []domain.Outcome{domain.OutcomeDisputed, ends.is} {
			j.play(a, []adapter.Outcome{adapter.Disputed, ends.outcome}[i])
			must(j.read(a, connector.Paid))
			all := j.disputes(a)
			if len(all) != 1 || all[0].Outcome != is || all[0].Amount != a.Amount || all[0].Currency != a.Currency || i > 0 && all[0].Reference != reference {
				fail("read lists the disputes %+v, want one of %s %s, which is %s", all, a.Amount, a.Currency, is)
			}
			reference = all[0].Reference
		}
	}
}

func refusesOtherRefund(j *judge) {
	r := j.refundOf(j.paid())
	r.Amount++
	if s := j.refund(r); s.Phase != connector.Closed {
		fail("the refund of %s out of %s is %s, want it refused", r.Amount, r.Attempt.Amount, s.Phase)
	}
}
