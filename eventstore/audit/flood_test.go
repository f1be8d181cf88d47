package audit

import (
	"errors"
	"fmt"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// TestFloodsOfSignalsArePossible: a payment with more refusals and late funds than
// it keeps has no findings, also when it is packed in between.
func TestFloodsOfSignalsArePossible(t *testing.T) {
	t.Parallel()
	at := domain.Instant(1_795_169_730_123)
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	p := domain.Payment{
		Project: "prj_1", ID: id, Status: domain.AwaitingPayment, Amount: 150000, Currency: "RUB", CreatedAt: at,
		ExpiresAt: at + 3_600_000, Route: "sandbox",
	}
	k, unrecorded := newEncoder(), uint64(0)
	come := func(s domain.Signal, earlier *domain.Signal) {
		t.Helper()
		e, err := p.Decide(domain.ApplySignal{Signal: s, Earlier: earlier, Unrecorded: unrecorded})
		if errors.As(err, new(*domain.UnrecordedError)) {
			unrecorded++
			return
		}
		if err == nil {
			err = p.Redecide(e, domain.Recorded{At: at, Version: 2})
		}
		if err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
		if _, ok := e.(domain.PaymentSignalRefused); ok {
			unrecorded = 0
		}
		p = k.decode(id, k.encode(&payment{state: p.Evolve(e)})).state
	}
	signal := func(n, amount int, route string) domain.Signal {
		return domain.Signal{
			Route: route, Outcome: domain.OutcomePaid, Reference: fmt.Sprint(n), Amount: domain.Amount(amount), Currency: "RUB", StartedAt: at,
		}
	}
	for n := range 3 * domain.MaxLateFunds {
		come(signal(n, 1, "sandbox"), nil)
	}
	earlier := signal(2*domain.MaxLateFunds, 1, "sandbox")
	come(signal(2*domain.MaxLateFunds, 2, "sandbox"), &earlier)
	for n := range 5 * domain.MaxRefused {
		come(signal(n, 150000, "bank"), nil)
	}
	if p.Refused <= 2*domain.MaxRefused || p.LateFunds != 3*domain.MaxLateFunds {
		t.Errorf("%d refused, %d of late funds", p.Refused, p.LateFunds)
	}
	forged := domain.PaymentSignalRefused{Reason: domain.ReasonWrongRoute, Signal: signal(-1, 150000, "bank"), Unrecorded: 3}
	if err := p.Redecide(forged, domain.Recorded{At: at, Version: 2}); err == nil {
		t.Error("a refusal that no rule records is believed")
	}
	forged.Unrecorded = 0 // as before there was a cap
	if err := p.Redecide(forged, domain.Recorded{At: at, Version: 1}); err != nil {
		t.Error(err)
	}
}

// TestRefusalsBeyondTheCapAreFindings: a payment with many refusals records one
// more only when their number has doubled.
func TestRefusalsBeyondTheCapAreFindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.route(w.create(false))
	all := w.records()
	refuse := func(n int, unrecorded uint64) {
		s := signalled(domain.OutcomePaid, fmt.Sprint(n))
		s.Route = "bank"
		all = w.forged(all, eventstore.PaymentStream(w.project, w.payments[0]),
			domain.PaymentSignalRefused{Reason: domain.ReasonWrongRoute, Signal: s, Unrecorded: unrecorded})
	}
	for n := range domain.MaxRefused {
		refuse(n, 0)
	}
	refuse(domain.MaxRefused, domain.MaxRefused-1)
	if r := w.check(all); !r.OK() {
		t.Fatalf("%+v", r.Findings)
	}
	refuse(domain.MaxRefused+1, 3)
	if r := w.check(all); len(r.Findings) != 1 || r.Findings[0].Kind != ImpossibleEvent || r.FirstBad != eventstore.Position(len(all)) {
		t.Errorf("%+v", r.Findings)
	}
}
