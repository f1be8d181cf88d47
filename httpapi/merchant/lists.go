package merchant

import (
	"strconv"
	"unicode/utf8"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
	"payledger/projections/views"
)

// listPayments answers GET /v1/payments, newest first.
func (a *API) ListPayments(x *edge.Exchange) error {
	req, err := edge.PageOf(x, paymentFilters()...)
	if err != nil {
		return err
	}
	q, err := paymentQuery(req)
	if err != nil {
		return err
	}
	if x.AsCSV() {
		return a.paymentsCSV(x, req, q)
	}
	found, err := a.cfg.Views.Payments(x.Context(), x.Project.ID, q)
	if err != nil {
		return err
	}
	rows := make([]domain.PaymentObject, 0, len(found.Payments))
	for _, p := range found.Payments {
		rows = append(rows, p.Object())
	}
	last := ""
	if found.More && len(rows) > 0 {
		last = rows[len(rows)-1].ID.String()
	}
	return x.ReplyPage(req, rows, last)
}

// paymentFilters are the query parameters that filter payments.
func paymentFilters() []string {
	return []string{
		"status", "currency", "created_from", "created_to", "amount", "amount_min", "amount_max",
		"description", "description_prefix", "description_words",
	}
}

// listRefunds answers GET /v1/refunds, newest first.
func (a *API) ListRefunds(x *edge.Exchange) error {
	req, err := edge.PageOf(x, "payment_id", "status")
	if err != nil {
		return err
	}
	q := views.RefundQuery{Limit: req.Limit}
	if q.Status, err = edge.OneOf(req.Filters, "status", domain.RefundStatuses()); err != nil {
		return err
	}
	if q.Before, err = before(req); err != nil {
		return err
	}
	known := true
	if req.Filters.Has("payment_id") {
		q.PaymentID, known = domain.ParseID(req.Filters["payment_id"])
	}
	if x.AsCSV() {
		return a.refundsCSV(x, req, q, known)
	}
	rows, last := []domain.RefundObject{}, ""
	if known { // a text that is no id is no payment's, so it has no refunds
		found, err := a.cfg.Views.Refunds(x.Context(), x.Project.ID, q)
		if err != nil {
			return err
		}
		for _, r := range found.Refunds {
			rows = append(rows, r.Refund.Object(r.Payment))
		}
		if found.More && len(rows) > 0 {
			last = rows[len(rows)-1].ID.String()
		}
	}
	return x.ReplyPage(req, rows, last)
}

// before is the id a page ends before.
func before(req edge.ListRequest) (domain.ID, error) {
	if req.Place == "" {
		return domain.ID{}, nil
	}
	id, ok := domain.ParseID(req.Place)
	if !ok {
		return id, wire.Problem{Code: domain.InvalidCursor}
	}
	return id, nil
}

// maxEvents is how many events of a payment one page has, and how many it has
// when the request does not say.
const maxEvents = edge.MaxLimit

// listPaymentEvents answers GET /v1/payments/{id}/events, oldest first: the
// records as they are stored, byte for byte, so that they can be compared
// with an export. Keys and fingerprints in them are digests.
func (a *API) ListPaymentEvents(x *edge.Exchange) error {
	req, err := edge.PageOf(x)
	if err != nil {
		return err
	}
	if !req.Sized {
		req.Limit = maxEvents
	}
	after, err := strconv.ParseUint("0"+req.Place, 10, 64)
	if err != nil {
		return wire.Problem{Code: domain.InvalidCursor}
	}
	p, err := a.payment(x, x.Vars["id"])
	if err != nil {
		return err
	}
	rows, last := make([]wire.EventLine, 0, 8), ""
	for r, err := range a.cfg.Ledger.Store.Load(x.Context(), eventstore.PaymentStream(p.Project, p.ID)) {
		if err != nil {
			return err
		}
		if r.Position <= eventstore.Position(after) {
			continue
		}
		if len(rows) == req.Limit {
			last = strconv.FormatUint(uint64(rows[len(rows)-1].Position), 10)
			break
		}
		rows = append(rows, wire.EventLine{Position: uint64(r.Position), Event: r.Body})
	}
	return x.ReplyPage(req, rows, last)
}

// paymentQuery reads the filters of a list of payments.
func paymentQuery(req edge.ListRequest) (q views.PaymentQuery, err error) {
	f := req.Filters
	q.Limit = req.Limit
	if q.Status, err = edge.OneOf(f, "status", domain.PaymentStatuses()); err != nil {
		return q, err
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
