package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// fillers is how many payments are written at a time.
const fillers = 512

// fill appends payments to the log of a stopped data directory: through the
// domain and the store, but without a server, so that a long log takes minutes
// and not hours. Each has four events: created, paid, refund created, refund
// succeeded.
func fill(ctx context.Context, data, project string, payments int) (err error) {
	store, err := bolt.Open(filepath.Join(data, "ledger.db"), bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	last, err := store.LastID(ctx)
	if err != nil {
		return err
	}
	f := filler{
		ledger: eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()},
		ids:    domain.NewIDs(time.Now, rand.Reader, last), project: project,
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(fillers)
	for range payments {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error { return f.life(ctx) })
	}
	return g.Wait()
}

type filler struct {
	ledger  eventstore.Ledger
	ids     *domain.IDs
	project string
}

// life writes one payment's four events.
func (f filler) life(ctx context.Context) error {
	id, event := f.ids.Pair()
	w := &stream{filler: f, name: eventstore.PaymentStream(f.project, id), state: domain.Payment{Project: f.project, ID: id}}
	var claim eventstore.Claim
	rand.Read(claim.Key[:])
	rand.Read(claim.Fingerprint[:])
	description := "order-1042"
	w.decide(ctx, event, &claim, domain.CreatePayment{
		At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Description: &description,
		Payload: domain.JSON(`{"cart":7,"customer":"c-8841"}`), Settings: domain.DefaultSettings(),
		Link:        domain.Link{Base: "http://127.0.0.1:8080", KeyVersion: 1, Render: 1},
		Idempotency: &domain.Idempotency{Key: claim.Key, Fingerprint: claim.Fingerprint},
		Routing:     &domain.Routing{Table: domain.SandboxTable()},
	})
	w.decide(ctx, f.ids.Next(), nil, domain.ApplySignal{Signal: f.signal(domain.OutcomePaid, nil)})
	refund, event := f.ids.Pair()
	w.decide(ctx, event, nil, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund})
	w.decide(ctx, f.ids.Next(), nil, domain.ApplySignal{Signal: f.signal(domain.OutcomeSucceeded, &refund)})
	return w.err
}

func (f filler) signal(o domain.Outcome, refund *domain.ID) domain.Signal {
	now := f.ids.Next()
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: o, Reference: "sandbox-" + now.String(), RefundID: refund,
		Amount: 150000, Currency: domain.DefaultCurrency, StartedAt: domain.IDTime(now),
	}
}

// stream is one payment that is being written. Its first error stays.
type stream struct {
	filler
	name  eventstore.Stream
	state domain.Payment
	last  eventstore.Stored
	err   error
}

func (w *stream) decide(ctx context.Context, event domain.ID, claim *eventstore.Claim, c domain.PaymentCommand) {
	if w.err != nil {
		return
	}
	e, err := w.state.Decide(c)
	if err != nil || e == nil {
		w.err = errors.Join(err, fmt.Errorf("the payment %s did not take %T", w.name.ID, c))
		return
	}
	commit, err := w.ledger.Commit(w.name, w.last, e, eventstore.Order{EventID: event, Claim: claim})
	if err != nil {
		w.err = err
		return
	}
	w.last, w.err = eventstore.AppendOne(ctx, w.ledger.Store, commit)
	w.state = w.state.Evolve(e)
}
