package check

import (
	"fmt"
	"slices"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/adapter"
)

// The cases of attempts that the adapter's customer has decided on.

func readsPaid(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	s, err := j.begin(a, connector.Paid)
	if err == nil && (s.Amount != a.Amount || s.Currency != a.Currency) {
		err = fmt.Errorf("begin answers %s %s, want %s %s", s.Amount, s.Currency, a.Amount, a.Currency)
	}
	return err
}

func readsDeclined(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	if err := j.play(a, adapter.Declined); err != nil {
		return err
	}
	_, err = j.read(a, connector.Closed, connector.Open)
	return err
}

func cancelsTooLate(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	for range 2 {
		if _, err := j.cancel(a, connector.Paid); err != nil {
			return err
		}
	}
	_, err = j.read(a, connector.Paid)
	return err
}

func refundsNothing(j *judge) error {
	a, err := j.begun()
	if err != nil {
		return err
	}
	s, err := j.refund(j.refundOf(a))
	if err == nil && s.Phase != connector.Closed {
		err = fmt.Errorf("the refund of an unpaid attempt is %s, want it refused", s.Phase)
	}
	return err
}

// listed checks that read lists the refund, and no other that returns money.
func (j *judge) listed(r connector.Refund, reference string) error {
	all, err := j.refunds(r.Attempt)
	if err != nil {
		return err
	}
	found := 0
	for _, one := range all {
		switch {
		case one.Phase == connector.Closed:
		case one.ID != r.ID || one.Reference != reference || one.Amount != r.Amount:
			return fmt.Errorf("read lists the refund %s of %s %s, which was not asked for", one.Reference, one.Amount, one.Currency)
		default:
			found++
		}
	}
	if found != 1 {
		return fmt.Errorf("read lists the refund %d times, want it once", found)
	}
	return nil
}

// refunded asks for a refund that is not refused.
func (j *judge) refunded(r connector.Refund) (connector.RefundState, error) {
	s, err := j.refund(r)
	switch {
	case err != nil:
	case s.Phase == connector.Closed:
		err = fmt.Errorf("the refund of a paid attempt is closed (%s)", s.Reason)
	case s.Amount != r.Amount || s.Currency != r.Currency:
		err = fmt.Errorf("the refund is of %s %s, want %s %s", s.Amount, s.Currency, r.Amount, r.Currency)
	}
	return s, err
}

func refundsOnce(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	r := j.refundOf(a)
	reference, err := together(func() (string, error) {
		s, err := j.refunded(r)
		return s.Reference, err
	})
	if err != nil {
		return err
	}
	return j.listed(r, reference)
}

func refundsAfterLostAnswer(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	r := j.refundOf(a)
	body, err := adapter.Encode(adapter.Refund, a, &r, "")
	if err != nil {
		return err
	}
	_, _ = j.send(message{path: adapter.Refund, body: body, leave: true}) // its answer is lost
	s, err := j.refunded(r)
	if err != nil {
		return err
	}
	return j.listed(r, s.Reference)
}

func refundsNoSecond(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	r := j.refundOf(a)
	first, err := j.refunded(r)
	if err != nil {
		return err
	}
	second, err := j.refund(j.refundOf(a))
	switch {
	case err != nil:
		return err
	case second.Phase != connector.Closed:
		return fmt.Errorf("a second refund of the same money is %s, want it closed", second.Phase)
	case second.Reason != connector.ReasonRefundedAtProvider:
		return fmt.Errorf("a second refund of the same money is closed as %s, want %s", second.Reason, connector.ReasonRefundedAtProvider)
	}
	return j.listed(r, first.Reference)
}

func refundsAfterReturn(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	r := j.refundOf(a)
	if _, err := j.refunded(r); err != nil {
		return err
	}
	if err := j.play(a, adapter.Returned); err != nil {
		return err
	}
	all, err := j.refunds(a)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(s connector.RefundState) bool { return s.ID == r.ID }); i < 0 || all[i].Phase != connector.Closed {
		return fmt.Errorf("read lists the refunds %+v, want the one whose money came back closed", all)
	}
	_, err = j.refunded(j.refundOf(a))
	return err
}

func tellsOfDisputes(j *judge) error {
	for _, ends := range []struct {
		outcome adapter.Outcome
		is      domain.Outcome
	}{{adapter.DisputeWon, domain.OutcomeDisputeWon}, {adapter.DisputeLost, domain.OutcomeDisputeLost}} {
		a, err := j.paid()
		if err != nil {
			return err
		}
		reference := ""
		for i, is := range []domain.Outcome{domain.OutcomeDisputed, ends.is} {
			if err := j.play(a, []adapter.Outcome{adapter.Disputed, ends.outcome}[i]); err != nil {
				return err
			}
			if _, err := j.read(a, connector.Paid); err != nil {
				return err
			}
			all, err := j.disputes(a)
			if err != nil {
				return err
			}
			if len(all) != 1 || all[0].Outcome != is || all[0].Amount != a.Amount || all[0].Currency != a.Currency || i > 0 && all[0].Reference != reference {
				return fmt.Errorf("read lists the disputes %+v, want one of %s %s, which is %s", all, a.Amount, a.Currency, is)
			}
			reference = all[0].Reference
		}
	}
	return nil
}

func refusesOtherRefund(j *judge) error {
	a, err := j.paid()
	if err != nil {
		return err
	}
	r := j.refundOf(a)
	r.Amount++
	s, err := j.refund(r)
	if err == nil && s.Phase != connector.Closed {
		err = fmt.Errorf("the refund of %s out of %s is %s, want it refused", r.Amount, a.Amount, s.Phase)
	}
	return err
}
