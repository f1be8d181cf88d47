package bustest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"payledger/domain"
	"payledger/eventstore"
)

// Views are the workers' views of the log, folded when they are read.
type Views struct{ *Book }

// folded is the state of payments up to a position of the log.
type folded struct {
	mu       sync.Mutex
	upTo     eventstore.Position
	payments map[domain.ID]domain.Payment
	created  map[domain.ID]eventstore.Position
}

// fold brings f up to date. The caller holds f.mu.
func (f *folded) fold(ctx context.Context, l eventstore.Ledger) error {
	for r, err := range l.Store.Scan(ctx, f.upTo, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return err
		}
		id, ok := domain.ParseID(r.Stream.ID)
		if !ok {
			return fmt.Errorf("stream %q", r.Stream.ID)
		}
		e, err := l.Codec.Decode(r)
		if err != nil {
			return err
		}
		p, seen := f.payments[id]
		if !seen {
			p, f.created[id] = domain.Payment{Project: r.Stream.Project, ID: id}, r.Position
		}
		f.payments[id], f.upTo = p.Evolve(e), r.Position
	}
	return nil
}

// Payment finds a payment.
func (v Views) Payment(ctx context.Context, id domain.ID) (domain.Payment, bool, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	p, ok := f.payments[id]
	return p, ok, err
}

// OldestUnrouted implements worker.UnroutedView.
func (v Views) OldestUnrouted(ctx context.Context) (eventstore.Position, bool, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	var oldest eventstore.Position
	for id, p := range f.payments {
		if p.Status == domain.Created && (oldest == 0 || f.created[id] < oldest) {
			oldest = f.created[id]
		}
	}
	return oldest, oldest != 0, err
}

// EachUnrouted implements worker.UnroutedView.
func (v Views) EachUnrouted(
	ctx context.Context, after eventstore.Position, limit int, fn func(created eventstore.Position, project string, payment domain.ID) error,
) error {
	f := v.folded
	f.mu.Lock()
	err := f.fold(ctx, v.Ledger)
	var found []domain.Payment
	for id, p := range f.payments {
		if p.Status == domain.Created && f.created[id] > after {
			found = append(found, p)
		}
	}
	created := maps.Clone(f.created)
	f.mu.Unlock()
	slices.SortFunc(found, func(a, b domain.Payment) int { return cmp.Compare(created[a.ID], created[b.ID]) })
	for _, p := range found[:min(limit, len(found))] {
		if err == nil {
			err = fn(created[p.ID], p.Project, p.ID)
		}
	}
	return err
}

func (v Views) open(ctx context.Context) ([]domain.Payment, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	var open []domain.Payment
	for _, p := range f.payments {
		if !p.Status.Final() {
			open = append(open, p)
		}
	}
	slices.SortFunc(open, func(a, b domain.Payment) int { return int(a.ExpiryDue() - b.ExpiryDue()) })
	return open, err
}

// EachDue implements worker.DueView.
func (v Views) EachDue(ctx context.Context, before domain.Instant, limit int, fn func(string, domain.ID) error) error {
	open, err := v.open(ctx)
	if err != nil {
		return err
	}
	for _, p := range open[:min(limit, len(open))] {
		if p.ExpiryDue() >= before {
			break
		}
		if err := fn(p.Project, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// NextDue implements worker.DueView.
func (v Views) NextDue(ctx context.Context) (domain.Instant, bool, error) {
	open, err := v.open(ctx)
	if err != nil || len(open) == 0 {
		return 0, false, err
	}
	return open[0].ExpiryDue(), true, nil
}

// All are all payments, in no order.
func (v Views) All(ctx context.Context) ([]domain.Payment, error) {
	f := v.folded
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold(ctx, v.Ledger)
	return slices.Collect(maps.Values(f.payments)), err
}
