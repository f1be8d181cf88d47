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
	return replyList(x, h.api.Payments, func(r wire.PaymentRow) domain.PaymentObject { return r.PaymentObject })
}

// ListPaymentRows is ListPayments for the operator, with what the public object does not say.
func (h Handlers) ListPaymentRows(x *edge.Exchange) error {
	return replyList(x, h.api.Payments, whole[wire.PaymentRow])
}

func whole[T any](row T) T { return row }

// replyList answers a list as JSON, of what is public of each row, or as CSV where that is asked for.
func replyList[T, O any](x *edge.Exchange, list func(Caller, url.Values) (Rows[T], error), public func(T) O) error {
	values, err := x.Values()
	if err != nil {
		return err
	}
	if x.AsCSV() {
		all, err := list(CallerOf(x), values)
		if err != nil {
			return err
		}
		return x.ReplyCSV(all.Table())
	}
	page, err := PageOf(list)(x.Context(), CallerOf(x), values)
	if err != nil {
		return err
	}
	out := wire.Page[O]{Data: make([]O, len(page.Data)), NextCursor: page.NextCursor}
	for i, row := range page.Data {
		out.Data[i] = public(row)
	}
	return edge.ReplyPage(x, out)
}

// Payments lists payments, newest first. Needs read.
func (a *API) Payments(c Caller, values url.Values) (Rows[wire.PaymentRow], error) {
	all, err := list[wire.PaymentRow](a, &c, values, "listPayments", paymentFilters()...)
	if err != nil {
		return all, err
	}
	q, err := paymentQuery(all.List)
	all.next = func(ctx context.Context, limit int) (part []wire.PaymentRow, last string, err error) {
		q.Limit = limit
		found, err := a.cfg.Views.Payments(ctx, c.Project.ID, q)
		part = make([]wire.PaymentRow, len(found.Payments))
		for i, p := range found.Payments {
			q.Before = p.ID
			part[i] = wire.PaymentRow{
				PaymentObject: p.Object(), Refund: p.RefundStatus(), ReturnedByHand: p.ReturnedByHand(), Dispute: p.DisputeStatus(),
			}
		}
		if found.More {
			last = q.Before.String()
		}
		return part, last, err
	}
	zone := c.Calendar().Zone()
	all.columns = []string{"id", "status", "amount", "currency", "description", "payload", "created_at", "refund_status", "dispute_status"}
	all.cells = eachRow(func(p wire.PaymentRow) []string {
		description := ""
		if p.Description != nil {
			description = *p.Description
		}
		return []string{
			p.ID.String(), string(p.Status), p.Amount.String(), string(p.Currency), description, string(p.Payload), p.CreatedAt.In(zone),
			string(p.Refund), string(p.Dispute),
		}
	})
	return all, err
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
	return replyList(x, h.api.Refunds, func(r wire.RefundRow) domain.RefundObject { return r.RefundObject })
}

// Refunds lists refunds, newest first. No payment has a payment_id that is no id, so there are none of
// it. Needs read.
func (a *API) Refunds(c Caller, values url.Values) (Rows[wire.RefundRow], error) {
	all, err := list[wire.RefundRow](a, &c, values, "listRefunds", "payment_id", "status")
	if err != nil {
		return all, err
	}
	q, known := views.RefundQuery{}, true
	if q.Status, err = edge.OneOf(all.Filters, "status", domain.RefundStatuses()); err != nil {
		return all, err
	}
	if all.Filters.Has("payment_id") {
		q.PaymentID, known = domain.ParseID(all.Filters["payment_id"])
		known = known && !q.PaymentID.IsZero() // the zero id would be no filter
	}
	q.Before, err = before(all.List)
	all.next = func(ctx context.Context, limit int) (part []wire.RefundRow, last string, err error) {
		part = []wire.RefundRow{}
		if !known {
			return part, "", nil
		}
		q.Limit = limit
		found, err := a.cfg.Views.Refunds(ctx, c.Project.ID, q)
		for _, r := range found.Refunds {
			q.Before = r.Refund.ID
			part = append(part, wire.RefundRowOf(r.Refund, r.Payment))
		}
		if found.More {
			last = q.Before.String()
		}
		return part, last, err
	}
	zone := c.Calendar().Zone()
	all.columns = []string{"id", "payment_id", "status", "amount", "currency", "created_at", "returned"}
	all.cells = eachRow(func(r wire.RefundRow) []string {
		returned := ""
		if r.Returned {
			returned = "true"
		}
		return []string{
			r.ID.String(), r.PaymentID.String(), string(r.Status), r.Amount.String(), string(r.Currency), r.CreatedAt.In(zone), returned,
		}
	})
	return all, err
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
		return q, edge.BadParameter("currency", "Send the ISO 4217 code of a currency with two minor digits, in upper case, such as RUB.")
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
