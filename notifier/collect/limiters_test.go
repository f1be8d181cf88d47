package collect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"payledger/domain"
	"payledger/notifier/connector"
	"payledger/notifier/connector/connectortest"
)

// TestNotificationsInMasses about payments of one's own, as anybody can send where
// they are not signed, delay no other payment of the route: neither what is asked by
// itself, nor its customer.
func TestNotificationsInMasses(t *testing.T) {
	for _, takes := range []time.Duration{0, 2 * time.Second} {
		t.Run(fmt.Sprint(takes), func(t *testing.T) {
			in(t, func(w *world) {
				w.oddly().takes.set(takes)
				var flood []connectortest.Notification
				for range 64 {
					id := w.payable(2 * time.Hour)
					w.pressed(id)
					flood = append(flood, w.provider.Signed([]byte("refund "+w.reference(id))))
				}
				paid, fresh := w.payable(time.Hour), w.payable(time.Hour)
				w.pressed(paid)
				ctx, stop := context.WithCancel(w.Context())
				var senders sync.WaitGroup
				for _, n := range flood {
					senders.Go(func() {
						for ctx.Err() == nil {
							_ = w.now.Notify(ctx, route, n.Header, n.Body)
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				after(time.Minute)
				w.provider.Pay(w.reference(paid))
				start := time.Now()
				w.pressed(fresh)
				if took := time.Since(start); took > takes+3*time.Second {
					w.Errorf("a customer waited for %v", took)
				}
				after(2 * time.Minute)
				if p := w.Payment(w.T, paid); p.Status != domain.Paid {
					w.Errorf("two minutes after it was paid: %s", p.Status)
				}
				stop()
				senders.Wait()
			})
		})
	}
}

// TestCustomersInMasses leave something of a slow provider for what is asked by
// itself.
func TestCustomersInMasses(t *testing.T) {
	in(t, func(w *world) {
		g := newLimiters(time.Now).of(route)
		ctx, stop := context.WithCancel(w.Context())
		var customers sync.WaitGroup
		for range 64 {
			customers.Go(func() {
				for ctx.Err() == nil {
					if leave, err := g.await(ctx, g.all); err == nil {
						time.Sleep(2 * time.Second)
						leave()
					}
				}
			})
		}
		asked := 0
		for range 60 {
			after(time.Second)
			if leave, _ := g.enter(); leave != nil {
				leave()
				asked++
			}
		}
		if asked < 50 {
			w.Errorf("asked %d times in a minute", asked)
		}
		stop()
		customers.Wait()
	})
}

// TestNotificationsOfUnknownAttempts, which a provider answers with an error: who
// sends them makes nobody believe that it is away.
func TestNotificationsOfUnknownAttempts(t *testing.T) {
	in(t, func(w *world) {
		o := w.oddly()
		id := w.payable(time.Hour)
		o.notices.set(func() []connector.Notice { return []connector.Notice{{Payment: id, Reference: "of no form"}} })
		o.read.set(func(a connector.Attempt, st connector.State, err error) (connector.State, error) {
			if a.Reference == "of no form" {
				err = errors.New("bad request")
			}
			return st, err
		})
		for range 2 * breakAfter {
			if err := w.now.Notify(w.Context(), route, nil, nil); err == nil {
				w.Error("judged")
			}
		}
		w.pressed(w.payable(time.Hour))
	})
}

// TestAShortOutage is over for customers soon after it is for the provider, however many calls were
// under way when it began.
func TestAShortOutage(t *testing.T) {
	in(t, func(w *world) {
		w.says.set(func(*connector.State, error) error {
			time.Sleep(time.Second)
			return errors.New("no answer")
		})
		var customers sync.WaitGroup
		for range 2 * breakAfter {
			id := w.payable(time.Hour)
			customers.Go(func() { _, _ = w.press(id) })
		}
		customers.Wait()
		w.says.set(nil)
		after(breakFirst)
		w.pressed(w.payable(time.Hour))
	})
}

// TestTheLongestPauseCounts of those that a provider asks for in answers to calls of one time.
func TestTheLongestPauseCounts(t *testing.T) {
	in(t, func(w *world) {
		var pauses atomic.Int64
		w.says.set(func(*connector.State, error) error {
			n := pauses.Add(1)
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
			return &connector.BusyError{After: []time.Duration{0, 30 * time.Second, 0}[n-1]}
		})
		var customers sync.WaitGroup
		for range 3 {
			id := w.payable(time.Hour)
			customers.Go(func() { _, _ = w.press(id) })
		}
		customers.Wait()
		w.says.set(nil)
		w.calls.Store(0)
		after(29 * time.Second)
		if n := w.calls.Load(); n > 0 {
			w.Errorf("%d calls within the time for which the provider asked for none", n)
		}
		after(3 * time.Second)
		w.pressed(w.payable(time.Hour))
	})
}

// TestAProviderThatIsBusy is left alone by those, too, who waited for their turn when
// it said so.
func TestAProviderThatIsBusy(t *testing.T) {
	in(t, func(w *world) {
		g := newLimiters(time.Now).of(route)
		var leave []func()
		for range cap(g.all.slots) {
			l, err := g.await(w.Context(), g.all)
			if err != nil {
				w.Fatal(err)
			}
			leave = append(leave, l)
		}
		waited := make(chan error, 1)
		go func() {
			_, err := g.await(w.Context(), g.all)
			waited <- err
		}()
		after(time.Second)
		g.called(&connector.BusyError{After: 10 * time.Second})
		for _, l := range leave {
			l()
		}
		if err := <-waited; !errors.Is(err, ErrDown) {
			w.Errorf("%v", err)
		}
	})
}
