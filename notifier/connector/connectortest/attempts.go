package connectortest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/notifier/connector"
)

// once checks that the provider has made one attempt for the payment.
func (b *bench) once(a connector.Attempt) {
	b.Helper()
	if got := b.provider.Attempts(a.Payment); len(got) != 1 || a.Reference != "" && got[0] != a.Reference {
		b.Errorf("the provider has the attempts %q; want one, %q", got, a.Reference)
	}
}

// begins: a repeated Begin answers the same attempt as it is now.
func begins(b *bench) {
	first := b.attempt()
	s, err := b.connector.Begin(b.context(), first)
	b.must(err)
	b.state(s)
	again, err := b.connector.Begin(b.context(), first)
	b.must(err)
	if diff := cmp.Diff(s, again); diff != "" {
		b.Errorf("begun twice: %s", diff)
	}
	first.Reference = s.Reference
	b.once(first)
	if diff := cmp.Diff(s, b.in(first, connector.Open)); diff != "" {
		b.Errorf("read as it was begun: %s", diff)
	}

	if !b.provider.Expire(first.Reference) {
		b.Fatal("an open attempt does not expire")
	}
	second := b.begun(next(first))
	if got := b.provider.Attempts(first.Payment); len(got) != 2 || second.Reference == first.Reference {
		b.Errorf("two keys have made the attempts %q", got)
	}
	b.pay(second)
	s, err = b.connector.Begin(b.context(), second)
	b.must(err)
	b.state(s)
	if s.Phase != connector.Paid || s.Reference != second.Reference || s.Amount != second.Amount {
		b.Errorf("begun again after it was paid: %+v", s)
	}
	b.in(first, connector.Closed)
	b.moved(b.provider.Collected(), second, true)
}

// reads: an attempt is paid as soon as money was collected, and not before.
func reads(b *bench) {
	for _, amount := range []domain.Amount{100_00, 100_01, 4242_42, 70_000_99} {
		a := b.begun(b.attemptOf(amount))
		b.in(a, connector.Open)
		b.moved(b.provider.Collected(), a, false)
		b.pay(a)
		if s := b.in(a, connector.Paid); s.Amount != a.Amount || s.Currency != a.Currency {
			b.Errorf("paid: %+v; want %s %s", s, a.Amount, a.Currency)
		}
		b.moved(b.provider.Collected(), a, true)
		if b.provider.Pay(a.Reference) {
			b.Error("an attempt is paid twice")
		}
	}
}

// readsAnotherAmount: what was collected is read, not what was asked for.
func readsAnotherAmount(b *bench) {
	b.provider.WrongAmount()
	a := b.begun(b.attempt())
	b.pay(a)
	s, got := b.in(a, connector.Paid), b.provider.Collected()
	if len(got) != 1 || s.Amount != got[0].Amount || s.Currency != got[0].Currency {
		b.Fatalf("read: %+v; collected: %+v", s, got)
	}
	if s.Amount == a.Amount && s.Currency == a.Currency {
		b.Fatal("the provider collects the right amount")
	}
	// It is late funds, which the operator returns: all of it.
	r := connector.Refund{ID: b.ids.Next(), Attempt: a, AskedAt: a.BegunAt, Amount: s.Amount, Currency: s.Currency}
	b.settled(r, true)
	if back := b.provider.Returned(); len(back) != 1 || back[0].Amount != s.Amount || back[0].Currency != s.Currency {
		b.Errorf("returned: %+v; want what was collected, %+v", back, got)
	}
}

// declines: an attempt that was declined is closed, or can still be paid.
func declines(b *bench) {
	a := b.begun(b.attempt())
	if !b.provider.Decline(a.Reference) {
		b.Fatal("nothing to decline")
	}
	s, err := b.connector.Read(b.context(), a)
	b.must(err)
	b.state(s)
	if s.Phase == connector.Paid || b.provider.Pay(a.Reference) != (s.Phase == connector.Open) {
		b.Errorf("declined: %+v", s)
	}
	b.moved(b.provider.Collected(), a, s.Phase == connector.Open)
}

// closed checks that an attempt stays closed, however it is asked for.
func (b *bench) closed(a connector.Attempt) {
	b.Helper()
	if b.provider.Pay(a.Reference) {
		b.Error("the customer can pay a closed attempt")
	}
	b.in(a, connector.Closed)
	for name, call := range b.calls() {
		s, err := call(b.context(), a)
		b.must(err)
		b.state(s)
		if s.Phase != connector.Closed || s.Reference != a.Reference {
			b.Errorf("%s after it was closed: %+v", name, s)
		}
	}
	b.once(a)
	b.moved(b.provider.Collected(), a, false)
}

func expires(b *bench) {
	a := b.begun(b.attempt())
	if !b.provider.Expire(a.Reference) {
		b.Fatal("an open attempt does not expire")
	}
	b.closed(a)
	b.begun(next(a)) // and the payment continues
}

// knowsNoOther: a reference that the provider has not given.
func knowsNoOther(b *bench) {
	a := b.begun(b.attempt())
	known := a.Reference
	a.Reference = another(known)
	_, read := b.connector.Read(b.context(), a)
	_, cancelled := b.connector.Cancel(b.context(), a)
	_, refunds := b.connector.Refunds(b.context(), a)
	for name, err := range map[string]error{"Read": read, "Cancel": cancelled, "Refunds": refunds} {
		b.clean(err)
		if !errors.Is(err, connector.ErrNotFound) {
			b.Errorf("%s of an unknown reference: %v; want ErrNotFound", name, err)
		}
	}
	a.Reference = known
	b.in(a, connector.Open)
}

// readsNoOtherPayments: money that was collected for one payment is never that of another one, even
// if a notification or an answer says so.
func readsNoOtherPayments(b *bench) {
	theirs, a := b.paid(), b.begun(b.attempt())
	known := a.Reference
	a.Reference = theirs.Reference
	for name, call := range b.calls() {
		if name == "Begin" {
			continue // has no reference
		}
		s, err := call(b.context(), a)
		b.clean(err)
		if err == nil {
			b.Errorf("%s of another payment's attempt: %+v; want an error", name, s)
		}
	}
	a.Reference = known
	b.in(a, connector.Open)
	b.in(theirs, connector.Paid)
	b.moved(b.provider.Collected(), a, false)
}

// cancels: a cancelled attempt stays so. Where the provider cannot cancel it, it
// is said to be open.
func cancels(b *bench) {
	a := b.begun(b.attempt())
	s, err := b.connector.Cancel(b.context(), a)
	b.must(err)
	b.state(s)
	switch s.Phase {
	case connector.Closed:
		b.closed(a)
	case connector.Open:
		b.in(a, connector.Open)
		b.pay(a)
		// It holds the money now, and lets go of it, or has collected it.
		if s, err = b.connector.Cancel(b.context(), a); err != nil || s.Phase == connector.Open {
			b.Fatalf("cancelled while it holds money: %+v, %v", s, err)
		}
		b.state(s)
		b.in(a, s.Phase)
		b.moved(b.provider.Collected(), a, s.Phase == connector.Paid)
	case connector.Paid:
		b.Errorf("cancelled unpaid: %+v", s)
	}
}

func cancelsTooLate(b *bench) {
	a := b.paid()
	for range 2 {
		s, err := b.connector.Cancel(b.context(), a)
		b.must(err)
		b.state(s)
		if s.Phase != connector.Paid || s.Amount != a.Amount || s.Currency != a.Currency {
			b.Errorf("cancelled after it was paid: %+v", s)
		}
	}
	b.moved(b.provider.Collected(), a, true)
	b.moved(b.provider.Returned(), a, false)
}

// limitsAmounts: the least and the greatest amount are taken or refused, for
// good.
func limitsAmounts(b *bench) {
	for _, amount := range []domain.Amount{domain.MinAmount, domain.MaxAmount} {
		a := b.attemptOf(amount)
		for range 2 {
			s, err := b.connector.Begin(b.context(), a)
			b.clean(err)
			refused, ok := errors.AsType[*connector.RefusedError](err)
			switch {
			case ok && refused.Reason != connector.ReasonCode(refused.Reason):
				b.Errorf("%s: the reason is %q", amount, refused.Reason)
			case ok && len(b.provider.Attempts(a.Payment)) > 0:
				b.Errorf("%s: refused, but made: %v", amount, err)
			case !ok && (err != nil || s.Phase != connector.Open):
				b.Errorf("%s: %+v, %v; want an open attempt or a refusal", amount, s, err)
			}
		}
	}
}
