package collect

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
)

// in runs a test in a bubble, and stops its collector.
func in(t *testing.T, test func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		test(w)
		w.now.stop()
	})
}

func TestACustomerPays(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		first := w.pressed(id)
		if again := w.pressed(id); again != first {
			w.Errorf("pressed again: %s, before %s", again, first)
		}
		w.provider.Pay(w.reference(id))
		after(30 * time.Second) // no notification has come
		want := []string{
			"payment.created", "payment.route_assigned", "payment.attempt_begun", "payment.attempt_offered", "payment.paid",
		}
		if got := w.types(id); !slices.Equal(got, want) {
			w.Errorf("%v", got)
		}
		if n := w.now.tasks.size(); n != 0 {
			w.Errorf("%d payments are still looked at", n)
		}
		_, err := w.press(id)
		if refused := (*domain.AttemptError)(nil); !errors.As(err, &refused) || refused.Reason != domain.AttemptTooLate {
			w.Errorf("pressed after that: %v", err)
		}
	})
}

// TestTheSameHandOffAfterARestart: its address is not in the log.
func TestTheSameHandOffAfterARestart(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		first := w.pressed(id)
		w.restart(-1)
		if again := w.pressed(id); again != first {
			w.Errorf("%s, before %s", again, first)
		}
	})
}

func TestAnotherTryAfterADecline(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		first := w.pressed(id)
		w.provider.Decline(w.reference(id))
		after(30 * time.Second)
		if second := w.pressed(id); second == first {
			w.Error("the attempt that was declined")
		}
		w.provider.Pay(w.reference(id))
		after(time.Minute)
		if p := w.Payment(w.T, id); p.Status != domain.Paid || len(p.Attempts) != 2 || p.Attempts[0].Status != domain.AttemptFailed {
			w.Errorf("%+v", p)
		}
	})
}

// TestTheDoorCloses: a payment expires only when nothing can be collected for it
// any more.
func TestTheDoorCloses(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(10 * time.Minute)
		w.pressed(id)
		after(14 * time.Minute)
		if a, open := w.Payment(w.T, id).OpenAttempt(); !open {
			w.Fatalf("cancelled before the grace was over: %+v", a)
		}
		after(3 * time.Minute)
		if a := w.Payment(w.T, id).Attempts[0]; a.Status != domain.AttemptFailed {
			w.Errorf("%+v", a)
		}
		if err := w.expire(id); err != nil {
			w.Error(err)
		}
		if w.provider.Pay(w.reference(id)) {
			w.Error("it could be paid after that")
		}
	})
}

// TestExpiryWaitsForTheProvidersLastWord: it is away when the door closes, and the
// customer pays meanwhile.
func TestExpiryWaitsForTheProvidersLastWord(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(10 * time.Minute)
		w.pressed(id)
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		after(time.Hour)
		var early *domain.TooEarlyError
		if err := w.expire(id); !errors.As(err, &early) {
			w.Fatalf("%v", err)
		}
		w.provider.Pay(w.reference(id))
		w.provider.Fault(connectortest.Down, 0, 0)
		after(time.Hour)
		if p := w.Payment(w.T, id); p.Status != domain.Paid {
			w.Errorf("%+v", p)
		}
	})
}

// TestAfterADayItExpiresAllTheSame, and money that comes then is late funds.
func TestAfterADayItExpiresAllTheSame(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(10 * time.Minute)
		w.pressed(id)
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		after(25 * time.Hour)
		if err := w.expire(id); err != nil {
			w.Fatal(err)
		}
		w.provider.Pay(w.reference(id))
		w.provider.Fault(connectortest.Down, 0, 0)
		after(time.Hour)
		if p := w.Payment(w.T, id); p.Status != domain.Expired || len(p.Late) != 1 {
			w.Errorf("%+v", p)
		}
	})
}

// TestASpentKeyIsGivenUp: a server error that the provider repeats for the key.
func TestASpentKeyIsGivenUp(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.provider.Fault(connectortest.StoredError, 0, 1)
		if _, err := w.press(id); !errors.Is(err, ErrDown) {
			w.Errorf("%v", err)
		}
		w.pressed(id)
		p := w.Payment(w.T, id)
		if len(p.Attempts) != 2 || p.Attempts[0].Reason != domain.ReasonAbandoned {
			w.Errorf("%+v", p.Attempts)
		}
	})
}

func TestAProviderThatIsDown(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(3 * time.Hour)
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		for range 10 {
			if _, err := w.press(id); !errors.Is(err, ErrDown) {
				w.Fatalf("%v", err)
			}
		}
		if p := w.Payment(w.T, id); len(p.Attempts) != 1 {
			w.Errorf("%d attempts", len(p.Attempts))
		}
		after(time.Hour)
		w.provider.Fault(connectortest.Down, 0, 0)
		after(10 * time.Minute)
		w.pressed(id) // the attempt of then
		if p := w.Payment(w.T, id); len(p.Attempts) != 1 {
			w.Errorf("%d attempts", len(p.Attempts))
		}
	})
}

func TestAnAttemptThatIsRefused(t *testing.T) {
	in(t, func(w *world) {
		w.provider.Fault(connectortest.Busy, 0, 1)
		id := w.payable(time.Hour)
		if _, err := w.press(id); !errors.Is(err, ErrDown) {
			w.Errorf("%v", err)
		}
		after(10 * time.Second)
		w.pressed(id)
	})
}

// TestRefunds to their end: by polling, and by a notification.
func TestRefunds(t *testing.T) {
	for _, notified := range []bool{false, true} {
		for _, succeeds := range []bool{false, true} {
			t.Run("", func(t *testing.T) {
				in(t, func(w *world) {
					id := w.payable(time.Hour)
					w.pressed(id)
					w.provider.Pay(w.reference(id))
					after(time.Minute)
					refund := w.IDs.Next()
					w.Do(w.T, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: refund})
					w.now.Wake(id)
					after(time.Minute)
					w.provider.SettleRefund(refund, succeeds)
					if notified {
						for _, n := range w.provider.Sent() {
							if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
								w.Error(err)
							}
						}
					} else {
						after(time.Hour)
					}
					want := domain.RefundFailed
					if succeeds {
						want = domain.RefundSucceeded
					}
					if r := w.Payment(w.T, id).Refunds[0]; r.Status != want {
						w.Errorf("%+v, want %s", r, want)
					}
				})
			})
		}
	}
}

// TestARefundWhoseKeyIsForgotten is searched for before it is asked for again.
func TestARefundWhoseKeyIsForgotten(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		w.provider.Pay(w.reference(id))
		after(time.Minute)
		refund := w.IDs.Next()
		w.Do(w.T, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: refund})
		w.provider.Fault(connectortest.ErrorAfter, 0, 1) // it is made, and nobody hears of it
		w.now.Wake(id)
		synctest.Wait()
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		after(25 * time.Hour)
		w.provider.ForgetKeys()
		w.provider.SettleRefund(refund, true)
		w.provider.Fault(connectortest.Down, 0, 0)
		after(time.Hour)
		if r := w.Payment(w.T, id).Refunds[0]; r.Status != domain.RefundSucceeded || len(w.provider.Returned()) != 1 {
			w.Errorf("%+v, returned %v", r, w.provider.Returned())
		}
	})
}

// TestRefundsByAnotherHand are recorded once, and a refund of ours then fails with
// the reason.
func TestRefundsByAnotherHand(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		w.provider.Pay(w.reference(id))
		after(time.Minute)
		w.provider.RefundByHand(w.reference(id))
		for range 2 {
			if err := w.now.Ask(w.Context(), id); err != nil {
				w.Error(err)
			}
		}
		p := w.Payment(w.T, id)
		if len(p.ProviderRefunds) != 1 || p.Status != domain.Paid {
			w.Errorf("%+v", p)
		}
		w.Do(w.T, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: w.IDs.Next()})
		w.now.Wake(id)
		after(time.Minute)
		if types := w.types(id); types[len(types)-1] != domain.TypeRefundFailed {
			w.Errorf("%v", types)
		}
	})
}

func TestNotificationsAreReadBack(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		forged := w.provider.Forged(w.reference(id))
		if err := w.now.Notify(w.Context(), route, forged.Header, forged.Body); !errors.Is(err, connector.ErrForged) {
			w.Errorf("forged: %v", err)
		}
		w.provider.Pay(w.reference(id))
		sent := w.provider.Sent()
		for _, n := range append(sent, sent...) {
			if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
				w.Error(err)
			}
			if p := w.Payment(w.T, id); p.Status != domain.Paid {
				w.Fatalf("not judged when it was answered: %+v", p)
			}
		}
		if err := w.now.Notify(w.Context(), "nowhere", nil, nil); !errors.Is(err, ErrNoConnector) {
			w.Errorf("%v", err)
		}
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		n := sent[0]
		other := w.payable(time.Hour)
		_, _ = w.press(other)
		if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
			w.Errorf("what is known already needs no provider: %v", err)
		}
	})
}

// TestNotificationsAskNoMoreOften: whoever sends notifications about one payment
// makes nobody ask its provider more often than that.
func TestNotificationsAskNoMoreOften(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		w.provider.Pay(w.reference(id))
		after(time.Minute)
		w.provider.RefundByHand(w.reference(id))
		sent := w.provider.Sent()
		refunded := sent[len(sent)-1]
		start := time.Now()
		const often = 20
		for range often {
			if err := w.now.Notify(w.Context(), route, refunded.Header, refunded.Body); err != nil {
				w.Error(err)
			}
		}
		if took := time.Since(start); took < (often-1)*MinInterval {
			w.Errorf("%d notifications were read at the provider within %v", often, took)
		}
	})
}

// TestRefundsAreAskedNoMoreOften: a refund, too, is asked for once in MinInterval at most, however
// often its payment is polled.
func TestRefundsAreAskedNoMoreOften(t *testing.T) {
	in(t, func(w *world) {
		id := w.paid()
		w.refund(id)
		w.calls.Store(0)
		const during = time.Minute
		for range during / (10 * time.Millisecond) {
			w.now.Wake(id)
			after(10 * time.Millisecond)
		}
		if n := w.calls.Load(); n == 0 || n > int64(during/MinInterval)+1 {
			w.Errorf("%d calls in %v", n, during)
		}
	})
}

// TestLateMoneyOfAFailedAttempt: the provider said that the attempt was closed, and
// then that it was paid.
func TestLateMoneyOfAFailedAttempt(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.pressed(id)
		reference := w.reference(id)
		w.Do(w.T, id, domain.FailAttempt{Number: 1, Reason: "cancelled"})
		w.provider.Pay(reference)
		for _, n := range w.provider.Sent() {
			if err := w.now.Notify(w.Context(), route, n.Header, n.Body); err != nil {
				w.Error(err)
			}
		}
		if p := w.Payment(w.T, id); p.Status != domain.Paid || p.Attempts[0].Status != domain.AttemptCollected {
			w.Errorf("%+v", p)
		}
	})
}

// TestTheEndOfAPaymentIsOfLittleCost: only those with something open are looked at,
// and a payment that fails while its attempt is open has it cancelled at once.
func TestTheEndOfAPaymentIsOfLittleCost(t *testing.T) {
	in(t, func(w *world) {
		w.now.Hear(domain.TypePaymentPaid, w.payable(time.Hour))
		if n := w.now.tasks.size(); n != 0 {
			w.Errorf("%d payments are looked at", n)
		}
		id := w.payable(time.Hour)
		w.pressed(id)
		p := w.Payment(w.T, id)
		after(10 * time.Minute)
		w.Do(w.T, id, domain.ApplySignal{Signal: domain.Signal{
			Route: route, Outcome: domain.OutcomeFailed, Reference: "said by hand", Amount: p.Amount, Currency: p.Currency,
		}})
		w.now.Hear(domain.TypePaymentFailed, id)
		after(MinInterval)
		if a := w.Payment(w.T, id).Attempts[0]; a.Status != domain.AttemptFailed {
			w.Errorf("%+v", a)
		}
	})
}

// TestAnImpatientCustomer presses all the time while the provider is away: it is
// called once in MinInterval at most, and hears of one attempt.
func TestAnImpatientCustomer(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		w.now.effects.Store(1 << 30)
		start := time.Now()
		for range 20 {
			_, _ = w.press(id)
		}
		calls := 1<<30 - w.now.effects.Load() - 1 // but for payment.attempt_begun
		if most := int64(time.Since(start)/MinInterval) + 1; calls > most {
			w.Errorf("%d calls in %v", calls, time.Since(start))
		}
	})
}

// TestACustomerWhoseStepIsNotRecorded, because the disk is full or another node has become the leader
// meanwhile, is told to try again before long, and then continues the same attempt.
func TestACustomerWhoseStepIsNotRecorded(t *testing.T) {
	in(t, func(w *world) {
		store := w.Store.(*memory.Store)
		id := w.payable(time.Hour)
		refused := func(when string) {
			w.Helper()
			start := time.Now()
			if _, err := w.press(id); !errors.Is(err, ErrDown) {
				w.Errorf("%s: %v", when, err)
			}
			if took := time.Since(start); took > 10*time.Second {
				w.Errorf("%s: a customer waited for %v", when, took)
			}
		}
		store.Refuse(eventstore.ErrFull)
		refused("the disk is full")
		store.Refuse(nil)
		w.says.set(func(*connector.State, error) error {
			store.Refuse(eventstore.ErrBusy)
			return nil
		})
		refused("the leader changes during the call")
		w.says.set(nil)
		store.Refuse(nil)
		w.pressed(id)
		want := []string{"payment.created", "payment.route_assigned", "payment.attempt_begun", "payment.attempt_offered"}
		if got := w.types(id); !slices.Equal(got, want) {
			w.Errorf("%v", got)
		}
	})
}

// TestRoutesWithoutAConnector take no room: what is open there is for others.
func TestRoutesWithoutAConnector(t *testing.T) {
	in(t, func(w *world) {
		id := w.Create(w.T, time.Hour)
		w.Do(w.T, id, domain.AssignRoute{Table: domain.RoutingTable{{Route: "elsewhere", Min: 1, Max: domain.MaxAmount, Weight: 1}}})
		w.Do(w.T, id, domain.ApplySignal{Signal: domain.Signal{
			Route: "elsewhere", Outcome: domain.OutcomePaid, Reference: "r", Amount: 150000, Currency: domain.DefaultCurrency, StartedAt: domain.InstantOf(time.Now()),
		}})
		w.Do(w.T, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: w.IDs.Next()})
		w.now.Wake(id)
		after(3 * time.Minute)
		if n := w.now.tasks.size(); n != 0 {
			w.Errorf("%d payments are looked at", n)
		}
		if _, err := w.press(id); !errors.Is(err, ErrNoConnector) {
			w.Errorf("%v", err)
		}
		if b := w.now.Backlogs()["elsewhere"]; b.Lost != 1 || b.Work[domain.WorkRefund] != 1 {
			w.Errorf("of the route that nobody configured: %+v", b)
		}
		if said := w.now.Degraded(); len(said) != 1 || w.now.Looks(w.Payment(w.T, id)).LastError != noConnector {
			w.Errorf("%q", said)
		}
	})
}

// TestBacklogs count what is open, and say how it is followed.
func TestBacklogs(t *testing.T) {
	in(t, func(w *world) {
		open, over := w.payable(time.Hour), w.payable(10*time.Minute)
		w.pressed(open)
		w.pressed(over)
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		after(20 * time.Minute)
		want := map[domain.WorkKind]int{domain.WorkAttempt: 1, domain.WorkCancel: 1}
		if b := w.now.Backlogs()[route]; !maps.Equal(b.Work, want) || b.Lost != 0 {
			w.Errorf("%+v", b)
		}
		looks := w.now.Looks(w.Payment(w.T, open))
		if looks.Tries < 3 || looks.LastError == "" || looks.NextTry == nil || *looks.NextTry <= domain.InstantOf(time.Now()) {
			w.Errorf("%+v", looks)
		}
		w.provider.Fault(connectortest.Down, 0, 0)
		after(10 * time.Minute)
		if looks := w.now.Looks(w.Payment(w.T, open)); looks.LastError != "" {
			w.Errorf("%+v", looks)
		}
		if b := w.now.Backlogs()[route]; b.Work[domain.WorkCancel] != 0 {
			w.Errorf("%+v", b)
		}
	})
}

// TestBacklogsCountWhatHasNoRoom: what is not followed yet is counted all the same.
func TestBacklogsCountWhatHasNoRoom(t *testing.T) {
	in(t, func(w *world) {
		w.provider.Fault(connectortest.Down, 0, 1<<30)
		w.now.tasks.mu.Lock()
		w.now.tasks.limit = 3
		w.now.tasks.mu.Unlock()
		const payments = 2*scanBatch + 1
		for range payments {
			id := w.payable(time.Hour)
			w.Do(w.T, id, domain.BeginAttempt{At: domain.InstantOf(time.Now()), Language: "ru", Merchant: "Shop"})
		}
		after(2 * rescan)
		if n := w.now.tasks.size(); n != 3 {
			w.Errorf("%d payments in memory", n)
		}
		if b := w.now.Backlogs()[route]; b.Work[domain.WorkAttempt] != payments {
			w.Errorf("%+v, want %d attempts", b, payments)
		}
	})
}

// TestPausedRoute: no attempt begins, and what is open comes to its end.
func TestPausedRoute(t *testing.T) {
	in(t, func(w *world) {
		open, fresh := w.payable(time.Hour), w.payable(time.Hour)
		first := w.pressed(open)
		w.paused.set(true)
		if _, err := w.press(fresh); !errors.Is(err, errPaused) {
			w.Errorf("pressed: %v", err)
		}
		if n := len(w.Payment(w.T, fresh).Attempts); n != 0 {
			w.Errorf("%d attempts on a paused route", n)
		}
		if again := w.pressed(open); again != first {
			w.Errorf("pressed again: %s, before %s", again, first)
		}
		w.provider.Pay(w.reference(open))
		after(time.Minute)
		if p := w.Payment(w.T, open); p.Status != domain.Paid {
			w.Errorf("the open attempt's money came: %s", p.Status)
		}
		w.paused.set(false)
		w.pressed(fresh)
	})
}

// TestPausedRouteBeginsNoSecondKey: the key of an attempt that its customer never
// saw is spent; another attempt would be a new one.
func TestPausedRouteBeginsNoSecondKey(t *testing.T) {
	in(t, func(w *world) {
		id := w.payable(time.Hour)
		w.provider.Fault(connectortest.StoredError, 0, 1)
		if _, err := w.press(id); err == nil {
			w.Fatal("the provider answered")
		}
		w.paused.set(true)
		if _, err := w.press(id); !errors.Is(err, errPaused) {
			w.Errorf("pressed: %v", err)
		}
		if a := w.Payment(w.T, id).Attempts; len(a) != 1 || a[0].Status != domain.AttemptFailed {
			w.Errorf("%+v", a)
		}
	})
}
