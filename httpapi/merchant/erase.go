package merchant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// EraseDetails answers POST /v1/payments/{id}/erase.
func (h Handlers) EraseDetails(x *edge.Exchange) error {
	var reason *string
	if err := edge.ReadObject(x.Body, edge.Field{Name: "reason", Required: true, Read: edge.TextTo(&reason)}); err != nil {
		return err
	}
	p, err := h.api.EraseDetails(x.Context(), CallerOf(x), x.Vars["id"], *reason)
	return x.Answer(p.Object(), err)
}

// EraseDetails removes a payment's description and payload for good and answers the payment without
// them. Repeated, it changes nothing. The refusal is details_in_log. Needs payments:write.
func (a *API) EraseDetails(ctx context.Context, c Caller, id, reason string) (p domain.Payment, err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return p, err
	}
	if p, err = a.payment(ctx, c, id); err != nil {
		return p, err
	}
	return a.erase(ctx, c, p, reason)
}

func (a *API) erase(ctx context.Context, c Caller, p domain.Payment, reason string) (domain.Payment, error) {
	event := a.cfg.IDs.Next()
	res, err := eventstore.Execute(ctx, a.cfg.Ledger, eventstore.PaymentStream(p.Project, p.ID),
		domain.Payment{Project: p.Project, ID: p.ID},
		domain.PaymentCommand(domain.EraseDetails{At: domain.IDTime(event), Reason: reason}),
		eventstore.Order{EventID: event, Cause: c.Cause()})
	return res.State, err
}

// eraseAtOnce is how many payments are erased together: they share syncs of the log.
const eraseAtOnce = 128

// EraseBefore erases the details of up to views.MaxLimit of a project's payments that were created
// before an instant, the newest first; behind goes on behind the last one of the page before. Needs
// payments:write.
func (a *API) EraseBefore(ctx context.Context, c Caller, before domain.Instant, reason string, behind domain.ID) (page wire.Erasure, err error) {
	if err := a.Admit(&c, projects.PaymentsWrite, nil); err != nil {
		return page, err
	}
	return a.erasePage(ctx, c, reason, views.PaymentQuery{To: before, Before: behind, Limit: views.MaxLimit})
}

// RetentionActor is the actor of what details_retention_days erases.
const RetentionActor = "retention"

// Kept are the projects that keep details for some days, and for how many.
func (a *API) Kept(ctx context.Context) (days map[string]int, err error) {
	all, err := a.cfg.Views.Projects(ctx)
	days = make(map[string]int)
	for _, p := range all {
		if n := p.Settings.DetailsRetentionDays; n > 0 {
			days[p.ID] = n
		}
	}
	return days, err
}

// EraseOverdue is EraseBefore for what the project keeps for so many days, with smaller pages. Damaged
// payments are left as they are.
func (a *API) EraseOverdue(ctx context.Context, project string, days int, before domain.Instant, behind domain.ID) (last domain.ID, err error) {
	c := Caller{Project: projects.Project{ID: project}, actor: RetentionActor}
	page, err := a.erasePage(ctx, c, fmt.Sprintf("details_retention_days is %d", days), views.PaymentQuery{To: before, Before: behind, Limit: eraseAtOnce})
	last, _ = domain.ParseID(page.Next)
	return last, err
}

func (a *API) erasePage(ctx context.Context, c Caller, reason string, q views.PaymentQuery) (page wire.Erasure, err error) {
	found, err := a.cfg.Views.Payments(ctx, c.Project.ID, q)
	if err != nil {
		return page, err
	}
	var todo []domain.Payment
	for _, p := range found.Payments {
		page.Next = p.ID.String()
		switch {
		case p.ErasedAt != 0:
		case p.Detached:
			todo = append(todo, p)
		case p.Description != nil || string(p.Payload) != string(domain.EmptyObject()):
			page.InLog++
		}
	}
	if !found.More {
		page.Next = ""
	}
	for part := range slices.Chunk(todo, eraseAtOnce) {
		errs := make([]error, len(part))
		var under sync.WaitGroup
		for i, p := range part {
			under.Go(func() { _, errs[i] = a.erase(ctx, c, p, reason) })
		}
		under.Wait()
		for _, err := range errs {
			switch {
			case errors.As(err, new(*eventstore.CorruptError)):
				page.Damaged++
			case err != nil:
				return page, err
			default:
				page.Erased++
			}
		}
	}
	return page, nil
}
