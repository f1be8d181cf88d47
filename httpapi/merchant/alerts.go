package merchant

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/httpapi/wire"
	"payledger/projections/books"
	"payledger/projections/views"
)

// What is soon, and what is late.
const (
	overlapEndsSoon = 24 * time.Hour
	routedLate      = time.Minute
)

// Alerts are what needs the merchant's attention, the most urgent first. Needs read.
func (a *API) Alerts(ctx context.Context, c Caller) ([]wire.Alert, error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return nil, err
	}
	all := []wire.Alert{}
	balances, err := a.cfg.Views.Balances(ctx, c.Project.ID, books.Now)
	if err != nil {
		return nil, err
	}
	for _, b := range balances.Balances {
		kind := map[domain.Account]wire.AlertKind{domain.DisputesHeld: wire.AlertDisputed, domain.Suspense: wire.AlertLateFunds}[b.Account]
		amount := b.Balance.Neg()
		if kind == wire.AlertLateFunds && amount.Sign() < 0 {
			kind, amount = wire.AlertByHand, b.Balance
		}
		if kind != "" && amount.Sign() != 0 {
			all = append(all, wire.Alert{Kind: kind, Currency: b.Currency, Amount: &amount})
		}
	}
	now := domain.InstantOf(a.cfg.Now())
	health, err := a.Healths(ctx, c.Project.Endpoints)
	if err != nil {
		return nil, err
	}
	for i, e := range c.Project.Endpoints {
		all = append(all, endpointAlerts(e, health[i], now)...)
	}
	unrouted, err := a.cfg.Views.Payments(ctx, c.Project.ID, views.PaymentQuery{
		Status: domain.Created, To: now.Add(-routedLate), Limit: 1,
	})
	if err != nil {
		return nil, err
	}
	for _, p := range unrouted.Payments {
		all = append(all, wire.Alert{Kind: wire.AlertUnrouted, PaymentID: &p.ID, Since: &p.CreatedAt})
	}
	kinds := []wire.AlertKind{wire.AlertDisputed, wire.AlertLateFunds, wire.AlertByHand, wire.AlertDisabled, wire.AlertFailing, wire.AlertUndelivered, wire.AlertUnrouted, wire.AlertSecret}
	slices.SortStableFunc(all, func(a, b wire.Alert) int {
		return cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind))
	})
	return all, nil
}

// Healths are the health of each endpoint. From the first on that is unavailable they are
// zero: the others would be waited for in vain.
func (a *API) Healths(ctx context.Context, endpoints []projects.Endpoint) ([]domain.EndpointHealth, error) {
	all := make([]domain.EndpointHealth, len(endpoints))
	for i, e := range endpoints {
		health, err := a.cfg.Webhooks.Health(ctx, e.ID)
		if p, ok := errors.AsType[wire.Problem](err); ok && p.Code == domain.Unavailable {
			break
		}
		if err != nil {
			return nil, err
		}
		all[i] = health
	}
	return all, nil
}

func endpointAlerts(e projects.Endpoint, health domain.EndpointHealth, now domain.Instant) (all []wire.Alert) {
	add := func(v wire.Alert) {
		v.EndpointID, v.URL = e.ID, e.URL
		all = append(all, v)
	}
	switch {
	case e.Disabled != "":
		add(wire.Alert{Kind: wire.AlertDisabled, Reason: e.Disabled, Since: &e.DisabledAt})
	case health.FailingSince != nil:
		add(wire.Alert{Kind: wire.AlertFailing, Since: health.FailingSince})
	}
	if health.Undelivered > 0 {
		add(wire.Alert{Kind: wire.AlertUndelivered, Count: health.Undelivered})
	}
	var ends domain.Instant // the first to end of the secrets before
	for _, old := range e.Previous {
		if now < old.Until && old.Until <= now.Add(overlapEndsSoon) && (ends == 0 || old.Until < ends) {
			ends = old.Until
		}
	}
	if ends != 0 {
		add(wire.Alert{Kind: wire.AlertSecret, Until: &ends})
	}
	return all
}
