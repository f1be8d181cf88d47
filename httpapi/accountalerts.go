package httpapi

import (
	"net/http"
	"time"

	"payledger/domain"
	"payledger/projections"
)

// alertKind is what a merchant should look at.
type alertKind string

// The alerts, the most urgent first.
const (
	alertLateFunds   alertKind = "late_funds"          // money came that belongs to no payment: currency, amount
	alertDisabled    alertKind = "endpoint_disabled"   // endpoint_id, url, reason, since
	alertFailing     alertKind = "endpoint_failing"    // endpoint_id, url, since
	alertUndelivered alertKind = "undelivered"         // endpoint_id, url, count: given up, parked, held or unconfirmed
	alertUnrouted    alertKind = "payments_not_routed" // payment_id of the newest, since: no route for over a minute
	alertSecret      alertKind = "secret_overlap_ends" // endpoint_id, url, until
)

// alertView is one alert; of its members only those its kind names are there.
type alertView struct {
	Kind       alertKind             `json:"kind"`
	EndpointID string                `json:"endpoint_id,omitzero"`
	URL        string                `json:"url,omitzero"`
	Reason     domain.DisabledReason `json:"reason,omitzero"`
	Since      *domain.Instant       `json:"since,omitempty"`
	Until      *domain.Instant       `json:"until,omitempty"`
	Count      int                   `json:"count,omitzero"`
	PaymentID  *domain.ID            `json:"payment_id,omitempty"`
	Currency   domain.Currency       `json:"currency,omitzero"`
	Amount     *domain.Sum           `json:"amount,omitempty"`
}

// What is soon, and what is late.
const (
	overlapEndsSoon = 24 * time.Hour
	routedLate      = time.Minute
)

// accountAlerts answers GET /account-api/alerts.
func (a *merchants) accountAlerts(x *exchange) error {
	all := []alertView{}
	books, err := a.cfg.Views.Balances(x.ctx(), x.project.ID, projections.AsOf{})
	if err != nil {
		return err
	}
	for _, b := range books.Balances {
		if b.Account == domain.Suspense && b.Balance.Sign() != 0 {
			amount := b.Balance.Neg()
			all = append(all, alertView{Kind: alertLateFunds, Currency: b.Currency, Amount: &amount})
		}
	}
	now := domain.InstantOf(a.cfg.Now())
	if a.cfg.Webhooks != nil {
		for _, e := range x.project.Endpoints {
			health, err := a.cfg.Webhooks.Health(x.ctx(), e.ID)
			if err != nil {
				return err
			}
			all = append(all, endpointAlerts(e, health, now)...)
		}
	}
	unrouted, err := a.cfg.Views.Payments(x.ctx(), x.project.ID, projections.PaymentQuery{
		Status: domain.Created, To: now.Add(-routedLate), Limit: 1,
	})
	if err != nil {
		return err
	}
	for _, p := range unrouted.Payments {
		all = append(all, alertView{Kind: alertUnrouted, PaymentID: &p.ID, Since: &p.CreatedAt})
	}
	return x.reply(http.StatusOK, map[string]any{"data": byUrgency(all)})
}

func endpointAlerts(e domain.Endpoint, health domain.EndpointHealth, now domain.Instant) (all []alertView) {
	about := alertView{EndpointID: e.ID, URL: e.URL}
	switch {
	case e.Disabled != "":
		v := about
		v.Kind, v.Reason, v.Since = alertDisabled, e.Disabled, &e.DisabledAt
		all = append(all, v)
	case health.FailingSince != nil:
		v := about
		v.Kind, v.Since = alertFailing, health.FailingSince
		all = append(all, v)
	}
	if health.Undelivered > 0 {
		v := about
		v.Kind, v.Count = alertUndelivered, health.Undelivered
		all = append(all, v)
	}
	var ends domain.Instant // the first to end of the secrets before
	for _, old := range e.Previous {
		if now < old.Until && old.Until <= now.Add(overlapEndsSoon) && (ends == 0 || old.Until < ends) {
			ends = old.Until
		}
	}
	if ends != 0 {
		v := about
		v.Kind, v.Until = alertSecret, &ends
		all = append(all, v)
	}
	return all
}

func byUrgency(all []alertView) []alertView {
	out := make([]alertView, 0, len(all))
	for _, kind := range []alertKind{alertLateFunds, alertDisabled, alertFailing, alertUndelivered, alertUnrouted, alertSecret} {
		for _, v := range all {
			if v.Kind == kind {
				out = append(out, v)
			}
		}
	}
	return out
}
