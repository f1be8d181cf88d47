package views

import (
	"cmp"
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore/values"
	"payledger/projections/table"
)

// byProjectView lists a project's payments: project, 0, id.
type byProjectView struct{ *table.Table[facts] }

func newByProjectView(db *table.DB) *byProjectView {
	return &byProjectView{table.New(db, "payments_by_project", appendFacts, parseFacts)}
}

func (v *byProjectView) update(before, after *PaymentRow) {
	if p := &after.Payment; before == nil {
		v.Insert(listKeyOf(p.ID, p.Project), factsOf(p))
	}
}

func byProjectKey(project string) string { return listKey(project) }

// byStatusView lists a project's payments of each status: project, 0, status,
// 0, id.
type byStatusView struct{ *table.Table[facts] }

func newByStatusView(db *table.DB) *byStatusView {
	return &byStatusView{table.New(db, "payments_by_status", appendFacts, parseFacts)}
}

func (v *byStatusView) update(before, after *PaymentRow) {
	p := &after.Payment
	if before != nil {
		if before.Payment.Status == p.Status {
			return
		}
		v.Delete(listKeyOf(p.ID, p.Project, string(before.Payment.Status)))
	}
	v.Insert(listKeyOf(p.ID, p.Project, string(p.Status)), factsOf(p))
}

func byStatusKey(project string, s domain.PaymentStatus) string { return listKey(project, string(s)) }

// byRefundView lists a project's payments by their RefundStatus, or NotRefunded:
// project, 0, status, 0, id.
type byRefundView struct{ *table.Table[facts] }

func newByRefundView(db *table.DB) *byRefundView {
	return &byRefundView{table.New(db, "payments_by_refund", appendRefunded, parseRefunded)}
}

func (v *byRefundView) update(before, after *PaymentRow) {
	p := &after.Payment
	var was domain.RefundStatus
	var wasReturned domain.Amount
	if before != nil {
		was, wasReturned = refundFilter(&before.Payment), before.Payment.Returned()
	}
	is, f := refundFilter(p), factsOf(p)
	f.returned = p.Returned()
	if was == is {
		if f.returned != wasReturned {
			v.Replace(listKeyOf(p.ID, p.Project, string(is)), f)
		}
		return
	}
	if was != "" {
		v.Delete(listKeyOf(p.ID, p.Project, string(was)))
	}
	v.Insert(listKeyOf(p.ID, p.Project, string(is)), f)
}

// refundFilter is the value of PaymentQuery.Refund that finds a payment.
func refundFilter(p *domain.Payment) domain.RefundStatus {
	return cmp.Or(p.RefundStatus(), NotRefunded)
}

func byRefundKey(project string, s domain.RefundStatus) string { return listKey(project, string(s)) }

// disputedView lists a project's payments that were ever disputed: project, 0, id.
type disputedView struct{ *table.Table[facts] }

func newDisputedView(db *table.DB) *disputedView {
	return &disputedView{table.New(db, "payments_disputed", appendFacts, parseFacts)}
}

func (v *disputedView) update(before, after *PaymentRow) {
	if p := &after.Payment; len(p.Disputes) > 0 && (before == nil || len(before.Payment.Disputes) == 0) {
		v.Insert(listKeyOf(p.ID, p.Project), factsOf(p))
	}
}

// facts are the members of a payment that never change and that lists are filtered by. They are
// kept in the lists, so that a payment that does not match is skipped without reading its row.
type facts struct {
	amount   domain.Amount
	currency domain.Currency
	returned domain.Amount // only in byRefundView, where it may change: what went back
}

func factsOf(p *domain.Payment) facts { return facts{amount: p.Amount, currency: p.Currency} }

func appendFacts(b []byte, f facts) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, uint64(f.amount))
	return append(b, f.currency...), nil
}

func parseFacts(b []byte) (facts, error) {
	if len(b) < 8 {
		return facts{}, values.ErrLength
	}
	n := binary.BigEndian.Uint64(b)
	return facts{amount: domain.Amount(n), currency: currencyOf(b[8:])}, nil
}

// A row of byRefundView is what went back, as 8 bytes, and then as in the other lists.

func appendRefunded(b []byte, f facts) ([]byte, error) {
	return appendFacts(binary.BigEndian.AppendUint64(b, uint64(f.returned)), f)
}

func parseRefunded(b []byte) (facts, error) {
	if len(b) < 8 {
		return facts{}, values.ErrLength
	}
	f, err := parseFacts(b[8:])
	f.returned = domain.Amount(binary.BigEndian.Uint64(b))
	return f, err
}

func currencyOf(b []byte) domain.Currency {
	if string(b) == string(domain.DefaultCurrency) {
		return domain.DefaultCurrency
	}
	return domain.Currency(b)
}
