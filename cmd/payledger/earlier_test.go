package main

import (
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/notifier/connector"
)

// handedOver writes, while no server runs, a payment created some time ago whose
// customer was sent to the provider a minute later. There is no later event.
func (s *till) handedOver(t testing.TB, ago, lifetime time.Duration) (b bill, reference string) {
	t.Helper()
	now := time.Now().Add(-ago)
	store, err := datadir.Dir(s.data).Open(bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids := domain.NewIDs(func() time.Time { return now }, rand.Reader, domain.ID{})
	b.id = ids.Next()
	ledger, stream := eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()}, eventstore.PaymentStream(s.ProjectID, b.id)
	var p domain.Payment
	do := func(command func(at domain.Instant) domain.PaymentCommand) {
		event := ids.Next()
		r, err := eventstore.Execute(t.Context(), ledger, stream, domain.Payment{Project: s.ProjectID, ID: b.id},
			command(domain.IDTime(event)), eventstore.Order{EventID: event})
		if err != nil {
			t.Fatal(err)
		}
		p = r.State
	}
	settings := domain.DefaultSettings()
	settings.LifetimeSeconds = int(lifetime.Seconds())
	do(func(at domain.Instant) domain.PaymentCommand {
		return domain.CreatePayment{
			At: at, Amount: 150000, Currency: domain.DefaultCurrency, Settings: settings,
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}
	})
	do(func(domain.Instant) domain.PaymentCommand {
		return domain.AssignRoute{Table: domain.RoutingTable{{Route: "real", Min: 1, Max: domain.MaxAmount, Weight: 1}}}
	})
	now = now.Add(time.Minute)
	do(func(at domain.Instant) domain.PaymentCommand {
		return domain.BeginAttempt{At: at, Language: "ru", Merchant: "Tea"}
	})
	a := p.Attempts[0]
	st, err := s.provider.Connector().Begin(t.Context(), connector.Attempt{
		Project: s.ProjectID, Payment: b.id, Number: a.Number, Key: domain.AttemptKey(b.id, a.Number), Amount: p.Amount, Currency: p.Currency,
		BegunAt: a.BegunAt, ExpiresAt: p.ExpiresAt, ReturnURL: fmt.Sprint("https://pay.example.com/p/", b.id),
		Language: a.Language, Merchant: a.Merchant,
	})
	if err != nil || st.HandOff == nil {
		t.Fatalf("an attempt at the provider: %+v, %v", st, err)
	}
	do(func(domain.Instant) domain.PaymentCommand {
		return domain.OfferAttempt{Number: a.Number, Reference: st.Reference, HandOff: st.HandOff.Kind}
	})
	return b, st.Reference
}
