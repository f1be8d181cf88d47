package merchant

import (
	"context"
	"net/url"
	"strconv"
	"unicode/utf8"

	"payledger/domain"
	"payledger/domain/projects"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// Lists take the filters, limit and cursor as the query string has them.

// ListPayments answers GET /v1/payments.
func (h Handlers) ListPayments(x *edge.Exchange) error {
	return replyList(x, h.api.Payments, h.api.PaymentsTable)
}

// ListPaymentRows is ListPayments for the operator, with what the public object does not say.
func (h Handlers) ListPaymentRows(x *edge.Exchange) error {
	return replyList(x, h.api.PaymentRows, h.api.PaymentsTable)
}

// replyList answers a list as JSON, or as CSV where that is asked for.
func replyList[T any](
	x *edge.Exchange,
	page func(context.Context, Caller, url.Values) (wire.Page[T], error),
	table func(context.Context, Caller, url.Values) (edge.Table, error),
) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	if x.AsCSV() {
		t, err := table(x.Context(), CallerOf(x), values)
		if err != nil {
			return err
		}
		return x.ReplyCSV(t)
	}
	p, err := page(x.Context(), CallerOf(x), values)
	if err != nil {
		return err
	}
	return edge.ReplyPage(x, p)
}

// paymentList reads a request for payments.
func (a *API) paymentList(c *Caller, values url.Values) (l edge.List, q views.PaymentQuery, err error) {
	if err := a.Admit(c, projects.Read, nil); err != nil {
		return l, q, err
	}
	if l, err = edge.ParseList(values, "listPayments", c.Project.ID, paymentFilters()...); err != nil {
		return l, q, err
	}
	q, err = paymentQuery(l)
	return l, q, err
}

// Payments lists payments, newest first. Needs read.
func (a *API) Payments(ctx context.Context, c Caller, values url.Values) (page wire.Page[domain.PaymentObject], err error) {
	rows, err := a.PaymentRows(ctx, c, values)
	if err != nil {
		return page, err
	}
	return objects(rows, func(r wire.PaymentRow) domain.PaymentObject { return r.PaymentObject }), nil
}

// objects is a page of rows without what the public objects do not say.
func objects[R, O any](rows wire.Page[R], object func(R) O) wire.Page[O] {
	page := wire.Page[O]{Data: make([]O, len(rows.Data)), NextCursor: rows.NextCursor}
	for i, r := range rows.Data {
		page.Data[i] = object(r)
	}
	return page
}

// PaymentRows is Payments with what the public object does not say. Needs read.
func (a *API) PaymentRows(ctx context.Context, c Caller, values url.Values) (page wire.Page[wire.PaymentRow], err error) {
	l, q, err := a.paymentList(&c, values)
	if err != nil {
		return page, err
	}
	found, err := a.cfg.Views.Payments(ctx, c.Project.ID, q)
	if err != nil {
		return page, err
	}
	rows := make([]wire.PaymentRow, 0, len(found.Payments))
	for _, p := range found.Payments {
		rows = append(rows, wire.PaymentRow{
			PaymentObject: p.Object(), Refund: p.RefundStatus(), ReturnedByHand: p.ReturnedByHand(), Dispute: p.DisputeStatus(),
		})
	}
	last := ""
	if found.More && len(rows) > 0 {
		last = rows[len(rows)-1].ID.String()
	}
	return edge.PageOf(l, rows, last), nil
}

// paymentFilters are the query parameters that filter payments.
func paymentFilters() []string {
	return []string{
		"status", "refund_status", "disputed", "currency", "created_from", "created_to", "amount", "amount_min", "amount_max",
		"description", "description_prefix", "description_words",
	}
}

// ListRefunds answers GET /v1/refunds.
func (h Handlers) ListRefunds(x *edge.Exchange) error {
	return replyList(x, h.api.Refunds, h.api.RefundsTable)
}

// refundList reads a request for refunds. known is false when the payment_id is
// no id: no payment has it, so there are no refunds.
func (a *API) refundList(c *Caller, values url.Values) (l edge.List, q views.RefundQuery, known bool, err error) {
	if err := a.Admit(c, projects.Read, nil); err != nil {
		return l, q, false, err
	}
	if l, err = edge.ParseList(values, "listRefunds", c.Project.ID, "payment_id", "status"); err != nil {
		return l, q, false, err
	}
	q.Limit, known = l.Limit, true
	if q.Status, err = edge.OneOf(l.Filters, "status", domain.RefundStatuses()); err != nil {
		return l, q, false, err
	}
	if l.Filters.Has("payment_id") {
		q.PaymentID, known = domain.ParseID(l.Filters["payment_id"])
	}
	q.Before, err = before(l)
	return l, q, known, err
}

// Refunds lists refunds, newest first. Needs read.
func (a *API) Refunds(ctx context.Context, c Caller, values url.Values) (page wire.Page[domain.RefundObject], err error) {
	rows, err := a.RefundRows(ctx, c, values)
	if err != nil {
		return page, err
	}
	return objects(rows, func(r wire.RefundRow) domain.RefundObject { return r.RefundObject }), nil
}

// RefundRows is Refunds with what the public object does not say. Needs read.
func (a *API) RefundRows(ctx context.Context, c Caller, values url.Values) (page wire.Page[wire.RefundRow], err error) {
	l, q, known, err := a.refundList(&c, values)
	if err != nil {
		return page, err
	}
	rows, last := []wire.RefundRow{}, ""
	if known {
		found, err := a.cfg.Views.Refunds(ctx, c.Project.ID, q)
		if err != nil {
			return page, err
		}
		for _, r := range found.Refunds {
			rows = append(rows, wire.RefundRowOf(r.Refund, r.Payment))
		}
		if found.More && len(rows) > 0 {
			last = rows[len(rows)-1].ID.String()
		}
	}
	return edge.PageOf(l, rows, last), nil
}

// before is the id a page ends before.
func before(req edge.List) (domain.ID, error) {
	if req.After == "" {
		return domain.ID{}, nil
	}
	id, ok := domain.ParseID(req.After)
	if !ok {
		return id, wire.Problem{Code: domain.InvalidCursor}
	}
	return id, nil
}

// maxEvents is how many events of a payment one page has, and how many it has
// when the request does not say.
const maxEvents = edge.MaxLimit

// ListPaymentEvents answers GET /v1/payments/{id}/events.
func (h Handlers) ListPaymentEvents(x *edge.Exchange) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	p, err := h.api.PaymentEvents(x.Context(), CallerOf(x), x.Vars["id"], values)
	if err != nil {
		return err
	}
	return edge.ReplyPage(x, p)
}

// PaymentEvents lists a payment's events, oldest first: the records as they
// are stored, byte for byte, so that they can be compared with an export. Keys
// and fingerprints in them are digests. Needs read.
func (a *API) PaymentEvents(ctx context.Context, c Caller, payment string, values url.Values) (page wire.Page[wire.EventLine], err error) {
	if err := a.Admit(&c, projects.Read, nil); err != nil {
		return page, err
	}
	l, err := edge.ParseList(values, "listPaymentEvents", c.Project.ID+"/"+payment)
	if err != nil {
		return page, err
	}
	if !l.Sized {
		l.Limit = maxEvents
	}
	after, err := strconv.ParseUint("0"+l.After, 10, 64)
	if err != nil {
		return page, wire.Problem{Code: domain.InvalidCursor}
	}
	p, err := a.payment(ctx, c, payment)
	if err != nil {
		return page, err
	}
	rows, last := make([]wire.EventLine, 0, 8), ""
	for r, err := range a.cfg.Ledger.Store.Load(ctx, eventstore.PaymentStream(p.Project, p.ID)) {
		if err != nil {
			return page, err
		}
		if r.Position <= eventstore.Position(after) {
			continue
		}
		if len(rows) == l.Limit {
			last = strconv.FormatUint(rows[len(rows)-1].Position, 10)
			break
		}
		rows = append(rows, LineOf(r))
	}
	return edge.PageOf(l, rows, last), nil
}

// paymentQuery reads the filters of a list of payments.
func paymentQuery(req edge.List) (q views.PaymentQuery, err error) {
	f := req.Filters
	q.Limit = req.Limit
	if q.Status, err = edge.OneOf(f, "status", domain.PaymentStatuses()); err != nil {
		return q, err
	}
	if q.Refund, err = edge.OneOf(f, "refund_status", append(domain.PaymentRefundStatuses(), views.NotRefunded)); err != nil {
		return q, err
	}
	disputed, err := edge.OneOf(f, "disputed", []string{"true", "false"})
	if err != nil {
		return q, err
	}
	if disputed != "" {
		q.Disputed = new(disputed == "true")
	}
	q.Currency = domain.Currency(f["currency"])
	if f.Has("currency") && !q.Currency.TwoMinorDigits() {
		return q, edge.BadParameter("currency", "Send an ISO 4217 code in upper case, such as RUB.")
	}
	if q.From, err = f.Instant("created_from"); err != nil {
		return q, err
	}
	if q.To, err = f.Instant("created_to"); err != nil {
		return q, err
	}
	if q.Min, err = f.Amount("amount_min"); err != nil {
		return q, err
	}
	if q.Max, err = f.Amount("amount_max"); err != nil {
		return q, err
	}
	if f.Has("amount") {
		exact, err := f.Amount("amount")
		if err != nil {
			return q, err
		}
		if f.Has("amount_min") || f.Has("amount_max") {
			return q, edge.BadParameter("amount", "Send either amount or its bounds amount_min and amount_max.")
		}
		q.Min, q.Max = exact, exact
	}
	for _, name := range []string{"description", "description_prefix", "description_words"} {
		if utf8.RuneCountInString(f[name]) > domain.MaxDescription {
			return q, edge.BadParameter(name, "No description is longer than 128 characters.")
		}
	}
	if exact, ok := f["description"]; ok {
		q.Description = &exact
	}
	if q.DescriptionPrefix = f["description_prefix"]; f.Has("description_prefix") && q.DescriptionPrefix == "" {
		return q, edge.BadParameter("description_prefix", "Send at least one character.")
	}
	if q.DescriptionTerms = views.SearchTerms(f["description_words"]); f.Has("description_words") && len(q.DescriptionTerms) == 0 {
		return q, edge.BadParameter("description_words", "Send at least one letter or digit.")
	}
	q.Before, err = before(req)
	return q, err
}
