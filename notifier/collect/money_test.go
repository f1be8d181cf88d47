package collect

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
)

// odd is a provider whose connector answers oddly where a function is set.
type odd struct {
	connectortest.Provider

	takes   setting[time.Duration] // each call
	forgets setting[bool]          // of cancelled attempts
	read    setting[func(connector.Attempt, connector.State, error) (connector.State, error)]
	notices setting[func() []connector.Notice]
	refunds setting[func([]connector.RefundState) []connector.RefundState]
	refund  setting[func(connector.RefundState) connector.RefundState]
}

func (o *odd) Connector() connector.Connector { return oddConnector{o.Provider.Connector(), o} }

type oddConnector struct {
	connector.Connector

	o *odd
}

func (c oddConnector) Begin(ctx context.Context, a connector.Attempt) (connector.State, error) {
	time.Sleep(c.o.takes.get())
	return c.Connector.Begin(ctx, a)
}

func (c oddConnector) Read(ctx context.Context, a connector.Attempt) (connector.State, error) {
	time.Sleep(c.o.takes.get())
	st, err := c.Connector.Read(ctx, a)
	if read := c.o.read.get(); read != nil {
		return read(a, st, err)
	}
	return st, err
}

func (c oddConnector) Cancel(ctx context.Context, a connector.Attempt) (connector.State, error) {
	if c.o.forgets.get() {
		return connector.State{}, connector.ErrNotFound
	}
	return c.Connector.Cancel(ctx, a)
}

func (c oddConnector) Notices(ctx context.Context, header http.Header, body []byte) ([]connector.Notice, error) {
	if notices := c.o.notices.get(); notices != nil {
		return notices(), nil
	}
	return c.Connector.Notices(ctx, header, body)
}

func (c oddConnector) Refunds(ctx context.Context, a connector.Attempt) ([]connector.RefundState, error) {
	time.Sleep(c.o.takes.get())
	all, err := c.Connector.Refunds(ctx, a)
	if refunds := c.o.refunds.get(); refunds != nil {
		all = refunds(all)
	}
	return all, err
}

func (c oddConnector) Refund(ctx context.Context, r connector.Refund) (connector.RefundState, error) {
	st, err := c.Connector.Refund(ctx, r)
	if refund := c.o.refund.get(); refund != nil && err == nil {
		st = refund(st)
	}
	return st, err
}

// oddly makes the provider an odd one.
func (w *world) oddly() *odd {
	o := &odd{Provider: w.provider}
	w.provider = o
	w.restart(-1)
	return o
}

// paid is a payment whose money the provider has collected.
func (w *world) paid() domain.ID {
	w.Helper()
	id := w.payable(time.Hour)
	w.pressed(id)
	w.provider.Pay(w.reference(id))
	after(time.Minute)
	if p := w.Payment(w.T, id); p.Status != domain.Paid {
		w.Fatalf("%+v", p)
	}
	return id
}

// refund is a refund that a merchant asks for.
func (w *world) refund(id domain.ID) domain.ID {
	w.Helper()
	refund := w.IDs.Next()
	w.Do(w.T, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: refund})
	w.now.Wake(id)
	after(time.Minute)
	return refund
}

// TestARefundFindsOneByAnotherHand of which no notification came: the money that
// has gone is recorded, and not only that our refund failed.
func TestARefundFindsOneByAnotherHand(t *testing.T) {
	in(t, func(w *world) {
		id := w.paid()
		w.provider.RefundByHand(w.reference(id))
		w.provider.Sent() // they get lost
		w.refund(id)
		p := w.Payment(w.T, id)
		if p.Refunds[0].Status != domain.RefundFailed || len(p.ProviderRefunds) != 1 {
			w.Errorf("%+v, by another hand %+v", p.Refunds, p.ProviderRefunds)
		}
	})
}

// TestARefundThatFailsLater: the provider said that it succeeded, and then that the
// bank sent the money back. The refund stays succeeded, its money is the merchant's again, and
// another refund of the payment can be made.
func TestARefundThatComesBack(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		id := w.paid()
		refund := w.refund(id)
		w.provider.SettleRefund(refund, true)
		after(time.Hour)
		if r := w.Payment(w.T, id).Refunds[0]; r.Status != domain.RefundSucceeded {
			w.Fatalf("%+v", r)
		}
		o.refunds.set(func(all []connector.RefundState) []connector.RefundState {
			all[0].Phase, all[0].Reason = connector.Closed, "expired_or_canceled_card"
			return all
		})
		for range 2 {
			if err := w.now.Ask(w.Context(), id); err != nil {
				w.Error(err)
			}
		}
		types := w.types(id)
		if n := len(types) - 1; types[n] != domain.TypeRefundReturned || types[n-1] != domain.TypeRefundSucceeded {
			w.Errorf("%v", types)
		}
		if r := w.Payment(w.T, id).Refunds[0]; r.Status != domain.RefundSucceeded || !r.Returned {
			w.Errorf("%+v", r)
		}
		w.refund(id)
	})
}

// TestDisputesAreFollowed: one is recorded when the provider notifies of it, and decided by asking,
// without a notification; one whose beginning nobody told of is recorded whole.
func TestDisputesAreFollowed(t *testing.T) {
	in(t, func(w *world) {
		id := w.paid()
		reference := w.reference(id)
		w.provider.Sent()
		w.provider.Dispute(reference)
		w.deliver()
		w.deliver()
		p := w.Payment(w.T, id)
		if p.Status != domain.Paid || len(p.Disputes) != 1 {
			w.Fatalf("%+v", p)
		}
		d := p.Disputes[0]
		if d.Status != domain.DisputeOpen || d.Amount != p.Amount || d.Reason != "fraudulent" || d.OpenedAt == 0 || d.EvidenceDueBy == 0 {
			w.Errorf("%+v", d)
		}
		w.provider.EndDispute(reference, true)
		w.provider.Sent() // and never arrives
		after(2 * disputeInterval)
		if p = w.Payment(w.T, id); p.DisputeStatus() != domain.DisputeWon || p.Uncollected() {
			w.Errorf("%+v", p.Disputes)
		}
		w.provider.Dispute(reference)
		w.provider.EndDispute(reference, false)
		w.deliver()
		if p = w.Payment(w.T, id); len(p.Disputes) != 2 || p.Disputes[0].Status != domain.DisputeWon || p.Disputes[1].Status != domain.DisputeLost {
			w.Errorf("%+v", p.Disputes)
		}
		want := []string{domain.TypePaymentDisputed, domain.TypePaymentDisputeWon, domain.TypePaymentDisputed, domain.TypePaymentDisputeLost}
		if types := w.types(id); !slices.Equal(types[len(types)-4:], want) {
			w.Errorf("%v", types)
		}
	})
}

// TestARefundThatSucceedsLater: the provider said that it failed, and has returned the
// money all the same.
func TestARefundThatSucceedsLater(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		id := w.paid()
		o.refund.set(func(st connector.RefundState) connector.RefundState {
			st.Phase, st.Reason = connector.Closed, "declined"
			return st
		})
		refund := w.refund(id)
		w.provider.SettleRefund(refund, true)
		o.refunds.set(nil)
		for range 2 {
			if err := w.now.Ask(w.Context(), id); err != nil {
				w.Error(err)
			}
		}
		p := w.Payment(w.T, id)
		if p.Refunds[0].Status != domain.RefundFailed || len(p.ProviderRefunds) != 1 || p.ProviderRefunds[0].Amount != p.Amount {
			w.Errorf("%+v, by another hand %+v", p.Refunds, p.ProviderRefunds)
		}
	})
}

// TestARefundOfOursIsNotRecordedAsAnothers, where the provider has lost our id of it.
func TestARefundOfOursIsNotRecordedAsAnothers(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		id := w.paid()
		w.provider.SettleRefund(w.refund(id), true)
		after(time.Hour)
		o.refunds.set(func(all []connector.RefundState) []connector.RefundState {
			all[0].ID = domain.ID{}
			return all
		})
		if err := w.now.Ask(w.Context(), id); err != nil {
			w.Error(err)
		}
		if p := w.Payment(w.T, id); p.Refunds[0].Status != domain.RefundSucceeded || len(p.ProviderRefunds) != 0 {
			w.Errorf("%+v, by another hand %+v", p.Refunds, p.ProviderRefunds)
		}
	})
}

// TestARefundOfAnotherAmount is not what was asked for: it stays pending, and the
// operator sees why.
func TestARefundOfAnotherAmount(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		id := w.paid()
		o.refund.set(func(st connector.RefundState) connector.RefundState {
			st.Amount--
			return st
		})
		w.provider.SettleRefund(w.refund(id), true)
		after(time.Hour)
		p := w.Payment(w.T, id)
		if looks := w.now.Looks(p); p.Refunds[0].Status != domain.RefundPending || looks.LastError == "" {
			w.Errorf("%+v, %+v", p.Refunds, looks)
		}
	})
}

// TestAProviderThatForgetsForAWhile, as with the key of another account: what was
// offered to the customer is not given up for that, until the payment has ended.
func TestAProviderThatForgetsForAWhile(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		paid, gone := w.payable(3*time.Hour), w.payable(3*time.Hour)
		first := w.pressed(paid)
		w.pressed(gone)
		o.read.set(func(connector.Attempt, connector.State, error) (connector.State, error) {
			return connector.State{}, connector.ErrNotFound
		})
		after(time.Hour)
		if again := w.pressed(paid); again != first {
			w.Errorf("another attempt, while the first can be paid: %s", again)
		}
		w.provider.Pay(w.reference(paid))
		w.provider.Sent() // they get lost
		o.read.set(nil)
		after(10 * time.Minute)
		if p := w.Payment(w.T, paid); p.Status != domain.Paid {
			w.Errorf("%+v", p)
		}
		o.forgets.set(true)
		after(48 * time.Hour)
		if a := w.Payment(w.T, gone).Attempts[0]; a.Status != domain.AttemptFailed || a.Reason != "not_found" {
			w.Errorf("%+v", a)
		}
	})
}

// TestNoticeFillsADisputeOfAReport: what only the provider's notice says of a dispute that a settlement
// report has opened is kept with it.
func TestNoticeFillsADisputeOfAReport(t *testing.T) {
	in(t, func(w *world) {
		id := w.paid()
		reference := w.reference(id)
		w.provider.Sent()
		p := w.Payment(w.T, id)
		w.Do(w.T, id, domain.ApplySignal{Signal: domain.Signal{
			Route: p.Route, Outcome: domain.OutcomeDisputed, Reference: "dispute of " + reference + "0", Amount: p.Amount, Currency: p.Currency,
		}})
		w.provider.Dispute(reference)
		for range 2 {
			w.deliver()
			after(2 * disputeInterval)
		}
		p = w.Payment(w.T, id)
		if d := p.Disputes[0]; len(p.Disputes) != 1 || d.Status != domain.DisputeOpen || d.Reason != "fraudulent" || d.OpenedAt == 0 || d.EvidenceDueBy == 0 {
			w.Errorf("%+v", p.Disputes)
		}
		want := []string{domain.TypePaymentPaid, domain.TypePaymentDisputed, domain.TypePaymentDisputed}
		if types := w.types(id); !slices.Equal(types[len(types)-3:], want) {
			w.Errorf("%v", types)
		}
	})
}
