package collect

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
)

// deliver hands over all notifications that the provider has sent.
func (w *world) deliver() {
	w.Helper()
	for _, n := range w.provider.Sent() {
		if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
			w.Error(err)
		}
	}
}

// TestAnotherCurrency than was asked for is no payment, and not forgotten.
func TestAnotherCurrency(t *testing.T) {
	in(t, func(w *world) {
		w.says.set(func(st *connector.State, err error) error {
			if st.Phase == connector.Paid {
				st.Currency = "USD"
			}
			return err
		})
		id := w.payable(10 * time.Minute)
		w.pressed(id)
		w.provider.Pay(w.reference(id))
		w.deliver()
		after(20 * time.Minute)
		p := w.Payment(w.T, id)
		if p.Status != domain.AwaitingPayment || len(p.Late) != 1 || p.Late[0].Currency != "USD" || p.Late[0].Reason != domain.ReasonWrongAmount {
			w.Errorf("%+v", p)
		}
		if _, open := p.OpenAttempt(); open {
			w.Error("its attempt is open")
		}
		if err := w.expire(id); err != nil {
			w.Error(err)
		}
	})
}

// TestPaidThenCancelled: the provider takes its word back, in a notification and
// when it is asked. The payment stays paid: only a refund returns money.
func TestPaidThenCancelled(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		w.provider.Pay(w.reference(id))
		sent := w.provider.Sent()
		after(time.Minute)
		before := w.types(id)
		w.says.set(func(st *connector.State, err error) error {
			st.Phase, st.Reason, st.Amount = connector.Closed, "cancelled", 0
			return err
		})
		for _, n := range sent {
			if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
				w.Error(err)
			}
		}
		if err := w.now.Ask(w.Context(), id); err != nil {
			w.Error(err)
		}
		after(time.Hour)
		if now := w.types(id); fmt.Sprint(now) != fmt.Sprint(before) || w.Payment(w.T, id).Status != domain.Paid {
			w.Errorf("%v, before %v", now, before)
		}
	})
}

// TestCancelledThenPaid: of an attempt that it had called closed, the provider says
// that it is paid when the payment has expired. The money is late funds.
func TestCancelledThenPaid(t *testing.T) {
	in(t, func(w *world) {
		w.says.set(func(st *connector.State, err error) error {
			st.Phase, st.Reason = connector.Closed, "cancelled"
			return err
		})
		id := w.payable(10 * time.Minute)
		if _, err := w.press(id); !ended(err) {
			w.Errorf("%v", err)
		}
		after(20 * time.Minute)
		if err := w.expire(id); err != nil {
			w.Fatal(err)
		}
		w.says.set(nil)
		w.provider.Pay(w.reference(id))
		w.deliver()
		if p := w.Payment(w.T, id); p.Status != domain.Expired || len(p.Late) != 1 || p.Late[0].Reason != domain.ReasonAfterExpired {
			w.Errorf("%+v", p)
		}
	})
}

// TestAProviderThatIsBusyForEver answers 429 to everything: it is not overrun, the
// alarm tells of it, and the payments expire when their time of waiting is over.
func TestAProviderThatIsBusyForEver(t *testing.T) {
	in(t, func(w *world) {
		var ids []domain.ID
		for range 60 {
			id := w.payable(30 * time.Minute)
			w.pressed(id)
			ids = append(ids, id)
		}
		w.provider.Fault(connectortest.Busy, 0, 1<<30)
		w.calls.Store(0)
		const asked = 10 * time.Minute
		after(asked)
		// Each answer closes the route for a second, but calls may be under way then.
		g := w.now.limiters.of(route)
		atATime := cap(g.all.slots) + cap(g.notices.slots) + cap(g.spare.slots)
		if n := w.calls.Load(); n == 0 || n > int64(asked/time.Second)*int64(atATime) {
			w.Errorf("%d calls in %v", n, asked)
		}
		after(2*time.Hour - asked)
		var early *domain.TooEarlyError
		if err := w.expire(ids[0]); !errors.As(err, &early) {
			w.Errorf("expired while the provider may have the money: %v", err)
		}
		if n := strings.Count(w.log.String(), "can be neither cancelled nor read"); n != len(ids) {
			w.Errorf("%d alarms, want one for each payment", n)
		}
		if b := w.now.Backlogs()[route]; b.Work[domain.WorkCancel] != len(ids) {
			w.Errorf("%+v", b)
		}
		after(25 * time.Hour)
		for _, id := range ids {
			if err := w.expire(id); err != nil {
				w.Fatal(err)
			}
		}
	})
}

// TestOneReferenceForTwoAttempts: the provider answers for another payment with a
// reference that it has given before. It has collected once, and so has the ledger.
func TestOneReferenceForTwoAttempts(t *testing.T) {
	in(t, func(w *world) {
		first, second := w.payable(10*time.Minute), w.payable(10*time.Minute)
		w.pressed(first)
		reference := w.reference(first)
		w.says.set(func(st *connector.State, err error) error {
			st.Reference = reference
			return err
		})
		w.pressed(second)
		w.provider.Pay(reference)
		after(time.Minute)
		w.says.set(func(st *connector.State, _ error) error {
			*st = connector.State{Reference: reference, Phase: connector.Paid, Amount: 150000, Currency: domain.DefaultCurrency}
			return nil
		})
		if err := w.now.Ask(w.Context(), second); err != nil {
			w.Error(err)
		}
		after(time.Minute)
		if p := w.Payment(w.T, first); p.Status != domain.Paid {
			w.Errorf("the first: %+v", p)
		}
		p := w.Payment(w.T, second)
		if _, open := p.OpenAttempt(); p.Status != domain.AwaitingPayment || open || p.LateFunds != 0 || p.Refused != 1 {
			w.Errorf("the second: %+v", p)
		}
	})
}

// TestLateFundsBeyondThoseListed that the provider has returned by another hand are
// recorded as returned, and await the operator no more.
func TestLateFundsBeyondThoseListed(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(10 * time.Minute)
		w.pressed(id)
		w.Do(w.T, id, domain.FailAttempt{Number: 1, Reason: "cancelled"})
		p, reference := w.Payment(w.T, id), w.reference(id)
		after(20 * time.Minute)
		if err := w.expire(id); err != nil {
			w.Fatal(err)
		}
		for i := range domain.MaxLateFunds {
			w.Do(w.T, id, domain.ApplySignal{Signal: domain.Signal{
				Route: route, Outcome: domain.OutcomePaid, Reference: fmt.Sprint("late ", i), Amount: p.Amount, Currency: p.Currency, StartedAt: p.CreatedAt,
			}})
		}
		w.provider.Pay(reference)
		w.deliver()
		if p := w.Payment(w.T, id); p.LateFunds != domain.MaxLateFunds+1 || p.LateUnlisted() != 1 {
			w.Fatalf("%d late funds, %d of them unlisted", p.LateFunds, p.LateUnlisted())
		}
		w.provider.RefundByHand(reference)
		w.deliver()
		after(time.Minute)
		p = w.Payment(w.T, id)
		if len(p.ProviderRefunds) != 1 || p.LateUnlisted() != 0 || len(p.InSuspense()) != domain.MaxLateFunds {
			w.Errorf("%d refunds by hand, %d unlisted, %d in suspense", len(p.ProviderRefunds), p.LateUnlisted(), len(p.InSuspense()))
		}
	})
}
