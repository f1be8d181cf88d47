package httpapi

import (
	"strconv"
	"unicode/utf8"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/projections"
)

// listPayments answers GET /v1/payments, newest first.
func (a *merchants) listPayments(x *exchange) error {
	req, err := pageOf(x, paymentFilters()...)
	if err != nil {
		return err
	}
	q, err := paymentQuery(req)
	if err != nil {
		return err
	}
	if x.asCSV() {
		return a.paymentsCSV(x, req, q)
	}
	found, err := a.cfg.Views.Payments(x.ctx(), x.project.ID, q)
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
	return x.replyPage(req, rows, last)
}

// paymentFilters are the query parameters that filter payments.
func paymentFilters() []string {
	return []string{
		"status", "currency", "created_from", "created_to", "amount", "amount_min", "amount_max",
		"description", "description_prefix", "description_words",
	}
}

// listRefunds answers GET /v1/refunds, newest first.
func (a *merchants) listRefunds(x *exchange) error {
	req, err := pageOf(x, "payment_id", "status")
	if err != nil {
		return err
	}
	q := projections.RefundQuery{Limit: req.limit}
	if q.Status, err = oneOf(req.filters, "status", domain.RefundStatuses()); err != nil {
		return err
	}
	if q.Before, err = before(req); err != nil {
		return err
	}
	known := true
	if req.filters.has("payment_id") {
		q.PaymentID, known = domain.ParseID(req.filters["payment_id"])
	}
	if x.asCSV() {
		return a.refundsCSV(x, req, q, known)
	}
	rows, last := []domain.RefundObject{}, ""
	if known { // a text that is no id is no payment's, so it has no refunds
		found, err := a.cfg.Views.Refunds(x.ctx(), x.project.ID, q)
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
	return x.replyPage(req, rows, last)
}

// before is the id a page ends before.
func before(req listRequest) (domain.ID, error) {
	if req.place == "" {
		return domain.ID{}, nil
	}
	id, ok := domain.ParseID(req.place)
	if !ok {
		return id, problem{Code: domain.InvalidCursor}
	}
	return id, nil
}

// maxEvents is how many events of a payment one page has, and how many it has
// when the request does not say.
const maxEvents = maxLimit

// listPaymentEvents answers GET /v1/payments/{id}/events, oldest first: the
// records as they are stored, byte for byte, so that they can be compared
// with an export. Keys and fingerprints in them are digests.
func (a *merchants) listPaymentEvents(x *exchange) error {
	req, err := pageOf(x)
	if err != nil {
		return err
	}
	if !req.sized {
		req.limit = maxEvents
	}
	after, err := strconv.ParseUint("0"+req.place, 10, 64)
	if err != nil {
		return problem{Code: domain.InvalidCursor}
	}
	p, err := a.payment(x, x.vars["id"])
	if err != nil {
		return err
	}
	rows, last := make([]eventLine, 0, 8), ""
	for r, err := range a.cfg.Ledger.Store.Load(x.ctx(), eventstore.PaymentStream(p.Project, p.ID)) {
		if err != nil {
			return err
		}
		if r.Position <= eventstore.Position(after) {
			continue
		}
		if len(rows) == req.limit {
			last = strconv.FormatUint(uint64(rows[len(rows)-1].Position), 10)
			break
		}
		rows = append(rows, eventLine{r.Position, r.Body})
	}
	return x.replyPage(req, rows, last)
}

// paymentQuery reads the filters of a list of payments.
func paymentQuery(req listRequest) (q projections.PaymentQuery, err error) {
	f := req.filters
	q.Limit = req.limit
	if q.Status, err = oneOf(f, "status", domain.PaymentStatuses()); err != nil {
		return q, err
	}
	q.Currency = domain.Currency(f["currency"])
	if f.has("currency") && !q.Currency.TwoMinorDigits() {
		return q, badParameter("currency", "Send an ISO 4217 code in upper case, such as RUB.")
	}
	if q.From, err = f.instant("created_from"); err != nil {
		return q, err
	}
	if q.To, err = f.instant("created_to"); err != nil {
		return q, err
	}
	if q.Min, err = f.amount("amount_min"); err != nil {
		return q, err
	}
	if q.Max, err = f.amount("amount_max"); err != nil {
		return q, err
	}
	if f.has("amount") {
		exact, err := f.amount("amount")
		if err != nil {
			return q, err
		}
		if f.has("amount_min") || f.has("amount_max") {
			return q, badParameter("amount", "Send either amount or its bounds amount_min and amount_max.")
		}
		q.Min, q.Max = exact, exact
	}
	for _, name := range []string{"description", "description_prefix", "description_words"} {
		if utf8.RuneCountInString(f[name]) > domain.MaxDescription {
			return q, badParameter(name, "No description is longer than 128 characters.")
		}
	}
	if exact, ok := f["description"]; ok {
		q.Description = &exact
	}
	if q.DescriptionPrefix = f["description_prefix"]; f.has("description_prefix") && q.DescriptionPrefix == "" {
		return q, badParameter("description_prefix", "Send at least one character.")
	}
	if q.DescriptionWords = projections.Words(f["description_words"]); f.has("description_words") && len(q.DescriptionWords) == 0 {
		return q, badParameter("description_words", "Send at least one letter or digit.")
	}
	q.Before, err = before(req)
	return q, err
}
