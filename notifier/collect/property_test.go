package collect

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"payledger/domain"
	"payledger/notifier/connector/connectortest"
)

// TestNothingIsCollectedTwiceOrForgotten runs whole lives by random schedules:
// customers press, pay and decline, the provider fails in every way it can, loses,
// doubles and delays its notifications, takes another amount, returns money by
// hand, and the process is killed between any two of its effects. In the end the
// ledger has what the provider collected, as paid or as late funds, and as
// returned what it returned; and each key made one attempt.
func TestNothingIsCollectedTwiceOrForgotten(t *testing.T) {
	t.Parallel()
	schedules := 40
	switch {
	case os.Getenv("PAYLEDGER_LONG") != "":
		schedules = 600
	case testing.Short(): // with the race detector
		schedules = 30
	}
	for seed := range uint64(schedules) {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { live(t, seed) })
		}) {
			return
		}
	}
}

func live(t *testing.T, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t)
	if r.IntN(8) == 0 {
		w.provider.WrongAmount()
	}
	var ids []domain.ID
	for range 1 + r.IntN(3) {
		ids = append(ids, w.payable(time.Duration(10+r.IntN(60))*time.Minute))
	}
	var late []connectortest.Notification
	for range 40 {
		id := ids[r.IntN(len(ids))]
		p := w.Payment(t, id)
		reference := ""
		if n := len(p.Attempts); n > 0 {
			reference = p.Attempts[r.IntN(n)].Reference
		}
		switch r.IntN(14) {
		case 0, 1:
			_, _ = w.press(id) // it may be down or dead
		case 2:
			w.provider.Pay(reference)
		case 3:
			if r.IntN(2) == 0 {
				w.provider.Decline(reference)
			} else {
				w.provider.Expire(reference)
			}
		case 4:
			faults := []connectortest.Fault{
				connectortest.Down, connectortest.ErrorBefore, connectortest.ErrorAfter, connectortest.StoredError, connectortest.Busy, connectortest.Garbage,
			}
			w.provider.Fault(faults[r.IntN(len(faults))], r.IntN(2), 1+r.IntN(6))
		case 5:
			w.restart(int64(1 + r.IntN(6))) // it dies soon
		case 6:
			w.restart(-1)
		case 7:
			late = append(late, w.provider.Sent()...)
			r.Shuffle(len(late), func(i, j int) { late[i], late[j] = late[j], late[i] })
			for range r.IntN(3) {
				if len(late) > 0 {
					n := late[r.IntN(len(late))] // maybe again, maybe never
					_ = w.now.Notify(t.Context(), route, n.Header, n.Body)
				}
			}
		case 8:
			after(time.Duration(r.IntN(600)) * time.Second)
		case 9:
			after(time.Duration(r.IntN(30)) * time.Hour)
			if r.IntN(2) == 0 {
				w.forgetKeys(ids)
				after(25 * time.Hour)
			}
		case 10:
			_ = w.expire(id)
		case 11:
			if p.Status == domain.Paid && (len(p.Refunds) == 0 || p.Refunds[len(p.Refunds)-1].Status == domain.RefundFailed) {
				w.Do(t, id, domain.CreateRefund{At: domain.InstantOf(time.Now()), RefundID: w.IDs.Next()})
			}
			w.now.Wake(id)
		case 12:
			for _, refund := range p.Refunds {
				w.provider.SettleRefund(refund.ID, r.IntN(3) > 0)
			}
		case 13:
			w.provider.RefundByHand(reference)
		}
	}
	w.end(ids)
}

// forgetKeys lets the provider forget its keys, unless one of an attempt may be less
// than a day old: they keep them that long.
func (w *world) forgetKeys(ids []domain.ID) {
	for _, id := range ids {
		a, open := w.Payment(w.T, id).OpenAttempt()
		if open && a.Status == domain.AttemptBegun && time.Since(a.BegunAt.Time()) < 24*time.Hour {
			return
		}
	}
	w.provider.ForgetKeys()
}

// end lets everything come to its end, and compares the ledger with the provider.
func (w *world) end(ids []domain.ID) {
	w.Helper()
	w.provider.Fault(connectortest.Down, 0, 0)
	w.restart(-1)
	ended := func(id domain.ID) bool {
		p := w.Payment(w.T, id)
		return p.Status.Final() && !p.Uncollected()
	}
	for round := 0; round == 0 || round < 4 && slices.ContainsFunc(ids, func(id domain.ID) bool { return !ended(id) }); round++ {
		after(25 * time.Hour)
		w.forgetKeys(ids) // and with them the server errors that it repeated
		for _, id := range ids {
			_ = w.expire(id)
			for _, refund := range w.Payment(w.T, id).Refunds {
				w.provider.SettleRefund(refund.ID, true)
			}
		}
	}
	for _, id := range ids {
		if err := w.now.Ask(w.Context(), id); err != nil {
			w.Error(err)
		}
	}
	w.now.stop()
	var booked, returned, collected, gaveBack domain.Sum
	for _, id := range ids {
		p := w.Payment(w.T, id)
		if !p.Status.Final() || p.Uncollected() {
			w.Errorf("it has not ended: %+v", p)
		}
		if p.Status == domain.Paid {
			booked = booked.Add(domain.SumOf(p.Amount))
		}
		for _, f := range p.Late {
			booked = booked.Add(domain.SumOf(f.Amount))
		}
		for _, r := range p.Refunds {
			if r.Status == domain.RefundSucceeded {
				returned = returned.Add(domain.SumOf(r.Amount))
			}
		}
		for _, r := range p.ProviderRefunds {
			returned = returned.Add(domain.SumOf(r.Amount))
		}
		if n := len(w.provider.Attempts(id)); n > len(p.Attempts) {
			w.Errorf("%d attempts at the provider, %d in the ledger", n, len(p.Attempts))
		}
	}
	for _, m := range w.provider.Collected() {
		collected = collected.Add(domain.SumOf(m.Amount))
	}
	for _, m := range w.provider.Returned() {
		gaveBack = gaveBack.Add(domain.SumOf(m.Amount))
	}
	if booked != collected || returned != gaveBack {
		w.Errorf("booked %s of %s collected, returned %s of %s", booked, collected, returned, gaveBack)
	}
}
