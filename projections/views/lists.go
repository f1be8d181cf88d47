package views

import (
	"encoding/binary"

	"payledger/domain"
	"payledger/eventstore/boltfile"
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

// byRefundView lists a project's payments by the status of their last refund:
// project, 0, status, 0, id. Payments without a refund are not in it.
type byRefundView struct{ *table.Table[facts] }

func newByRefundView(db *table.DB) *byRefundView {
	return &byRefundView{table.New(db, "payments_by_refund", appendFacts, parseFacts)}
}

func (v *byRefundView) update(before, after *PaymentRow) {
	p := &after.Payment
	var was domain.RefundStatus
	if before != nil {
		was = before.Payment.RefundStatus()
	}
	is := p.RefundStatus()
	if was == is {
		return
	}
	if was != "" {
		v.Delete(listKeyOf(p.ID, p.Project, string(was)))
	}
	v.Insert(listKeyOf(p.ID, p.Project, string(is)), factsOf(p))
}

func byRefundKey(project string, s domain.RefundStatus) string { return listKey(project, string(s)) }

// facts are the members of a payment that never change and that lists are
// filtered by. They are kept in the lists, so that a payment that does not match
// is passed over without its row.
type facts struct {
	amount   domain.Amount
	currency domain.Currency
}

func factsOf(p *domain.Payment) facts { return facts{p.Amount, p.Currency} }

func appendFacts(b []byte, f facts) ([]byte, error) {
	b = binary.BigEndian.AppendUint64(b, uint64(f.amount))
	return append(b, f.currency...), nil
}

func parseFacts(b []byte) (facts, error) {
	if len(b) < 8 {
		return facts{}, boltfile.ErrLength
	}
	n := binary.BigEndian.Uint64(b)
	return facts{domain.Amount(n), currencyOf(b[8:])}, nil
}

func currencyOf(b []byte) domain.Currency {
	if string(b) == string(domain.DefaultCurrency) {
		return domain.DefaultCurrency
	}
	return domain.Currency(b)
}
