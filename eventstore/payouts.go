package eventstore

import (
	"context"

	"payledger/domain"
	"payledger/domain/settlement"
)

// PayoutStream names the stream of a payout: of its route, or to the merchant of a project.
func PayoutStream(project string, p settlement.Payout) Stream {
	if p.Route != "" {
		return ArrivedStream(p.Route)
	}
	return PaidStream(project)
}

// UndonePayout says when, why and by whom a payout was undone.
type UndonePayout struct {
	At            domain.Instant
	Reason, Actor string
}

// UndonePayouts are the payouts of a stream that were undone, by the ids of their events.
func UndonePayouts(ctx context.Context, l Ledger, s Stream) (map[domain.ID]UndonePayout, error) {
	var ids []domain.ID // of the events
	undone := make(map[domain.ID]UndonePayout)
	for r, err := range l.Codec.Events(l.Store.Load(ctx, s)) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, r.Commit)
		if u, ok := r.Event.(settlement.PayoutUndone); ok && u.Number >= 1 && u.Number <= len(ids) {
			undone[ids[u.Number-1]] = UndonePayout{domain.InstantOf(r.At), u.Reason, CauseOf(r.Body).Actor}
		}
	}
	return undone, nil
}
