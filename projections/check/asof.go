package check

import (
	"context"
	"fmt"
	"iter"

	"payledger/domain"
	"payledger/eventstore"
)

// prefix is a store that ends at a position.
type prefix struct {
	eventstore.Store
	end eventstore.Position
}

// Last implements eventstore.Store.
func (p prefix) Last(ctx context.Context) (eventstore.Position, error) {
	last, err := p.Store.Last(ctx)
	return min(last, p.end), err
}

// LastOf implements eventstore.Store.
func (p prefix) LastOf(ctx context.Context, f eventstore.Filter) (eventstore.Position, error) {
	last, err := p.Store.LastOf(ctx, f)
	return min(last, p.end), err
}

// Scan implements eventstore.Store.
func (p prefix) Scan(ctx context.Context, after eventstore.Position, f eventstore.Filter) iter.Seq2[eventstore.Stored, error] {
	return func(yield func(eventstore.Stored, error) bool) {
		if after >= p.end {
			return
		}
		for r, err := range p.Store.Scan(ctx, after, f) {
			if err == nil && r.Position > p.end {
				return
			}
			if !yield(r, err) || (err == nil && r.Position == p.end) {
				return
			}
		}
	}
}

// reportEach is the number of events after which progress is called.
const reportEach = 8192

// PositionAsOf is the last position of the longest prefix of the log in which no
// event is later than the instant. Events are recorded almost, but not always, in
// the order of their times: the first later one ends the prefix, as in
// books.Books.PositionAt. This function needs no views and reads the prefix.
func PositionAsOf(ctx context.Context, s eventstore.Store, at domain.Instant) (eventstore.Position, error) {
	var last eventstore.Position
	for r, err := range s.Scan(ctx, 0, eventstore.Filter{}) {
		if err != nil {
			return 0, err
		}
		if domain.IDTime(r.Commit) > at {
			break
		}
		last = r.Position
	}
	return last, nil
}

// PaymentAsOf folds one payment's events up to the position. ok is false when
// it did not exist then.
func PaymentAsOf(
	ctx context.Context, l eventstore.Ledger, id domain.ID, upTo eventstore.Position, progress func(done, total eventstore.Position),
) (p domain.Payment, ok bool, err error) {
	name := id.String()
	for r, err := range (prefix{l.Store, upTo}).Scan(ctx, 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return p, false, err
		}
		if progress != nil && r.Position%reportEach == 0 {
			progress(r.Position, upTo)
		}
		if r.Stream.ID != name {
			continue
		}
		e, err := l.Codec.Decode(r)
		if err != nil {
			return p, false, err
		}
		if !ok {
			p, ok = domain.Payment{Project: r.Stream.Project, ID: id}, true
		}
		if p.Project != r.Stream.Project {
			return p, false, &eventstore.CorruptError{Position: r.Position, Reason: fmt.Sprintf("payment %s is one of project %s", id, p.Project)}
		}
		p = p.Evolve(e)
	}
	return p, ok, nil
}
