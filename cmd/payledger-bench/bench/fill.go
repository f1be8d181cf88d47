package bench

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

// Filled says what Fill wrote.
type Filled struct {
	Payments int     `json:"payments"`
	Events   int     `json:"events"`
	Seconds  float64 `json:"seconds"`
}

// fillers is how many payments are written at a time.
const fillers = 512

// Fill appends payments to the log of a stopped data directory: through the
// domain and the store, but without a server, so that a long log takes minutes
// and not hours. Each has three events, paid being the last, or five with its
// refund.
func Fill(ctx context.Context, data, project string, payments, events int) (_ Filled, err error) {
	store, err := bolt.Open(filepath.Join(data, "ledger.db"), bolt.Options{})
	if err != nil {
		return Filled{}, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	last, err := store.LastID(ctx)
	if err != nil {
		return Filled{}, err
	}
	f := filler{
		ledger: eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()},
		ids:    domain.NewIDs(time.Now, rand.Reader, last), project: project, refunded: events == 5,
	}
	start := time.Now()
	result := Filled{Payments: payments, Events: payments * events}
	g, ctx := errgroup.WithContext(ctx)
	todo := make(chan int)
	g.Go(func() error {
		defer close(todo)
		for i := range payments {
			select {
			case todo <- i:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		return nil
	})
	for range fillers {
		g.Go(func() error {
			for range todo {
				if err := f.life(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = g.Wait()
	result.Seconds = time.Since(start).Seconds()
	return result, err
}

type filler struct {
	ledger   eventstore.Ledger
	ids      *domain.IDs
	project  string
	refunded bool
}

// life writes one payment's events.
func (f filler) life(ctx context.Context) error {
	id, event := f.ids.Pair()
	p := domain.Payment{Project: f.project, ID: id}
	w := &stream{filler: f, name: eventstore.PaymentStream(f.project, id), state: p}
	var claim eventstore.Claim
	rand.Read(claim.Key[:])
	rand.Read(claim.Fingerprint[:])
	description := "order-1042"
	err := w.decide(ctx, event, &claim, domain.CreatePayment{
		At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Description: &description,
		Payload: domain.JSON(`{"cart":7,"customer":"c-8841"}`), Settings: domain.DefaultSettings(),
		Link:        domain.Link{Base: "http://127.0.0.1:8080", KeyVersion: 1, Render: 1},
		Idempotency: &domain.Idempotency{Key: claim.Key, Fingerprint: claim.Fingerprint},
	})
	if err != nil {
		return err
	}
	if err := w.decide(ctx, f.ids.Next(), nil, domain.AssignRoute{Table: domain.SandboxTable()}); err != nil {
		return err
	}
	if err := w.decide(ctx, f.ids.Next(), nil, domain.ApplySignal{Signal: f.signal(domain.OutcomePaid, nil)}); err != nil {
		return err
	}
	if !f.refunded {
		return nil
	}
	refund, event := f.ids.Pair()
	if err := w.decide(ctx, event, nil, domain.CreateRefund{At: domain.IDTime(event), RefundID: refund}); err != nil {
		return err
	}
	return w.decide(ctx, f.ids.Next(), nil, domain.ApplySignal{Signal: f.signal(domain.OutcomeSucceeded, &refund)})
}

func (f filler) signal(o domain.Outcome, refund *domain.ID) domain.Signal {
	now := f.ids.Next()
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: o, Reference: "sandbox-" + now.String(), RefundID: refund,
		Amount: 150000, Currency: domain.DefaultCurrency, StartedAt: domain.IDTime(now),
	}
}

// stream is one payment that is being written.
type stream struct {
	filler
	name  eventstore.Stream
	state domain.Payment
	last  eventstore.Stored
}

func (w *stream) decide(ctx context.Context, event domain.ID, claim *eventstore.Claim, c domain.PaymentCommand) error {
	e, err := w.state.Decide(c)
	if err != nil || e == nil {
		return errors.Join(err, fmt.Errorf("the payment %s did not take %T", w.name.ID, c))
	}
	commit, err := w.ledger.Commit(w.name, w.last, e, eventstore.Order{EventID: event, Claim: claim})
	if err != nil {
		return err
	}
	w.last, err = eventstore.AppendOne(ctx, w.ledger.Store, commit)
	w.state = w.state.Evolve(e)
	return err
}
