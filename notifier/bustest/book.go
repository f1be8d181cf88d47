// Package bustest is what tests of the rooms on NATS share: a ledger in memory,
// and an embedded NATS server.
package bustest

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/eventstore/memory"
	"payledger/notifier/health/healthtest"
)

// Project is the project that all of a Book's payments belong to.
const Project = "prj_test"

// Book is a ledger with a clock, on a store in memory.
type Book struct {
	eventstore.Ledger
	LogID domain.ID
	IDs   *domain.IDs
	Now   func() time.Time

	folded *folded // for Views
}

// NewBook makes an empty ledger, which ends with the test.
func NewBook(tb testing.TB) *Book {
	tb.Helper()
	store := memory.New()
	tb.Cleanup(func() { _ = store.Close() })
	ids := domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	return &Book{
		Ledger: eventstore.Ledger{Store: store, Codec: eventstore.NewCodec()},
		LogID:  ids.Next(), IDs: ids, Now: time.Now,
		folded: &folded{payments: map[domain.ID]domain.Payment{}, created: map[domain.ID]eventstore.Position{}},
	}
}

// Create makes a payment that expires after this time.
func (b *Book) Create(tb testing.TB, lifetime time.Duration) domain.ID {
	tb.Helper()
	settings := domain.DefaultSettings()
	settings.LifetimeSeconds = int(lifetime.Seconds())
	id, event := b.IDs.Pair()
	_, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id}, domain.PaymentCommand(domain.CreatePayment{
			At: domain.IDTime(event), Amount: 150000, Currency: domain.DefaultCurrency, Settings: settings,
			Link: domain.Link{Base: "https://pay.example.com", KeyVersion: 1, Render: 1},
		}), eventstore.Order{EventID: event, New: true})
	if err != nil {
		tb.Fatal(err)
	}
	return id
}

// Do runs a command on a payment.
func (b *Book) Do(tb testing.TB, id domain.ID, cmd domain.PaymentCommand) domain.Payment {
	tb.Helper()
	r, err := eventstore.Execute(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id}, cmd, eventstore.Order{EventID: b.IDs.Next()})
	if err != nil {
		tb.Fatal(err)
	}
	return r.State
}

// Routed makes a payment with the sandbox for its route.
func (b *Book) Routed(tb testing.TB) domain.Payment {
	tb.Helper()
	return b.Do(tb, b.Create(tb, time.Hour), domain.AssignRoute{Table: domain.SandboxTable()})
}

// Payment folds a payment from the log.
func (b *Book) Payment(tb testing.TB, id domain.ID) domain.Payment {
	tb.Helper()
	p, _, err := eventstore.Fold(context.Background(), b.Ledger, eventstore.PaymentStream(Project, id),
		domain.Payment{Project: Project, ID: id})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// Last is the position of the newest record.
func (b *Book) Last(tb testing.TB) eventstore.Position {
	tb.Helper()
	last, err := b.Store.Last(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return last
}

// Records is the whole log.
func (b *Book) Records(tb testing.TB) []eventstore.Stored {
	tb.Helper()
	var all []eventstore.Stored
	for r, err := range b.Store.Scan(context.Background(), 0, eventstore.Filter{}) {
		if err != nil {
			tb.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// Register records project events, which no outsider may see.
func (b *Book) Register(t *testing.T) {
	t.Helper()
	for _, cmd := range []projects.ProjectCommand{
		projects.RegisterProject{Name: "Shop", Settings: domain.DefaultSettings()},
		projects.IssueKey{KeyID: "key_1", Hash: projects.HashKey("secret"), Scopes: projects.AllScopes()},
	} {
		_, err := eventstore.Execute(t.Context(), b.Ledger, eventstore.ProjectStream(Project),
			projects.Project{ID: Project}, cmd, eventstore.Order{EventID: b.IDs.Next()})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// AllRouted waits until every payment has a route.
func AllRouted(t *testing.T, b *Book) {
	t.Helper()
	healthtest.Eventually(t, "every payment has its route", func() bool {
		_, some, err := Views{b}.OldestUnrouted(context.Background())
		return err == nil && !some
	})
}

// Paid is the signal that pays p.
func Paid(p domain.Payment) domain.Signal {
	return domain.Signal{
		Route: domain.SandboxRoute, Outcome: domain.OutcomePaid, Reference: "ref-" + p.ID.String(), Amount: p.Amount, Currency: p.Currency,
		StartedAt: p.CreatedAt,
	}
}

// Failing returns the errors it was given before it appends.
type Failing struct {
	eventstore.Store
	Left chan error
}

// Append implements eventstore.Store.
func (f *Failing) Append(ctx context.Context, commits ...eventstore.Commit) []eventstore.Appended {
	done := make([]eventstore.Appended, len(commits))
	for i, c := range commits {
		select {
		case done[i].Err = <-f.Left:
		default:
			done[i].Stored, done[i].Err = eventstore.AppendOne(ctx, f.Store, c)
		}
	}
	return done
}
