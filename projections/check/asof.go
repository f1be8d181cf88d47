package check

import (
	"context"
	"fmt"

	"payledger/domain"
	"payledger/eventstore"
)

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
	for r, err := range l.Store.Scan(ctx, 0, eventstore.Filter{Kind: eventstore.KindPayment}) {
		if err != nil {
			return p, false, err
		}
		if r.Position > upTo {
			break
		}
		if progress != nil && r.Position%reportEach == 0 {
			progress(r.Position, upTo)
		}
		if r.Stream.ID == name {
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
		if r.Position == upTo {
			break
		}
	}
	return p, ok, nil
}
