package projections

import "payledger/domain"

// byStatusView lists a project's payments of each status: project, 0, status,
// 0, id.
type byStatusView struct{ table[facts] }

func newByStatusView() *byStatusView {
	return &byStatusView{newTable("payments_by_status", appendFacts, parseFacts)}
}

func (*byStatusView) version() int { return 1 }

func (v *byStatusView) move(before, after *paymentRow) {
	p := &after.Payment
	if before != nil {
		was := before.Payment.Status
		if was == p.Status {
			return
		}
		v.remove(listKeyOf(p.ID, p.Project, string(was)))
	}
	v.insert(listKeyOf(p.ID, p.Project, string(p.Status)), factsOf(p))
}

func byStatusKey(project string, s domain.PaymentStatus) string { return listKey(project, string(s)) }
