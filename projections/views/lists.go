package views

import (
	"cmp"

	"payledger/domain"
	"payledger/projections/table"
)

// listView keeps those payments that have something in common, in an order of its own. A payment is in it
// once at most.
type listView[V comparable] struct {
	*table.Table[V]

	// part is what of the key can change in the life of a payment; ok: the payment is in the list.
	part func(*domain.Payment) (part string, ok bool)
	key  func(row *PaymentRow, part string) string
	// value is what readers have to know before they read the payment.
	value func(*domain.Payment) V
}

func (v *listView[V]) update(before, after *PaymentRow) {
	var was string
	var listed bool
	if before != nil {
		was, listed = v.part(&before.Payment)
	}
	part, is := v.part(&after.Payment)
	if is && listed && part == was {
		if value := v.value(&after.Payment); value != v.value(&before.Payment) {
			v.Replace(v.key(after, part), value)
		}
		return
	}
	if listed {
		v.Delete(v.key(before, was))
	}
	if is {
		v.Insert(v.key(after, part), v.value(&after.Payment))
	}
}

// newByProject lists a project's payments: project, 0, id.
func newByProject(db *table.DB) *listView[facts] {
	return ofProject(table.New(db, "payments_by_project", appendFacts, parseFacts), func(*domain.Payment) bool { return true })
}

// newDisputed lists a project's payments that were ever disputed: project, 0, id.
func newDisputed(db *table.DB) *listView[facts] {
	return ofProject(table.New(db, "payments_disputed", appendFacts, parseFacts), func(p *domain.Payment) bool { return len(p.Disputes) > 0 })
}

func ofProject(t *table.Table[facts], lists func(*domain.Payment) bool) *listView[facts] {
	return &listView[facts]{
		Table: t, part: func(p *domain.Payment) (string, bool) { return "", lists(p) }, value: factsOf,
		key: func(r *PaymentRow, _ string) string { return listKeyOf(r.Payment.ID, r.Payment.Project) },
	}
}

func byProjectKey(project string) string { return listKey(project) }

// newByStatus lists a project's payments of each status: project, 0, status, 0, id.
func newByStatus(db *table.DB) *listView[facts] {
	return inParts(table.New(db, "payments_by_status", appendFacts, parseFacts), func(p *domain.Payment) (string, bool) { return string(p.Status), true })
}

func byStatusKey(project string, s domain.PaymentStatus) string { return listKey(project, string(s)) }

// newByRefund lists a project's payments by their RefundStatus, or NotRefunded:
// project, 0, status, 0, id.
func newByRefund(db *table.DB) *listView[facts] {
	v := inParts(table.New(db, "payments_by_refund", appendFacts, parseFacts), func(p *domain.Payment) (string, bool) { return string(refundFilter(p)), true })
	v.value = func(p *domain.Payment) facts {
		f := factsOf(p)
		f.returned = p.Returned()
		return f
	}
	return v
}

// refundFilter is the value of PaymentQuery.Refund that finds a payment.
func refundFilter(p *domain.Payment) domain.RefundStatus {
	return cmp.Or(p.RefundStatus(), NotRefunded)
}

func byRefundKey(project string, s domain.RefundStatus) string { return listKey(project, string(s)) }

// newByDescription finds a project's payments by description: project, 0,
// description, 0, id. Payments without a description are not in it.
func newByDescription(db *table.DB) *listView[facts] {
	v := inParts(table.New(db, "payments_by_description", appendFacts, parseFacts), func(p *domain.Payment) (string, bool) {
		if p.Description == nil {
			return "", false
		}
		return cutDescription(*p.Description), true
	})
	v.FillPercent = textFill
	return v
}

// textFill is how full pages of texts become before they are split. Texts come
// in any order, but the ids of one term, and most merchants' order numbers, rise.
// So 0.7 is between 0.9, best for rising keys, and 0.5, best for random ones.
const textFill = 0.7

// descriptionKey begins the keys of one description, descriptionStart those of
// every description that begins like this one. Other keys may begin the same
// way, so each payment found is checked itself.
func descriptionKey(project, d string) string { return listKey(project, cutDescription(d)) }

func descriptionStart(project, d string) string { return listKey(project) + cutDescription(d) }

// cutDescription bounds the key: 128 code points are at most 512 bytes, and
// what an event may say beyond that is not needed to find it.
func cutDescription(d string) string { return d[:min(len(d), 512)] }

// inParts is a list with one part for each value.
func inParts(t *table.Table[facts], part func(*domain.Payment) (string, bool)) *listView[facts] {
	return &listView[facts]{
		Table: t, part: part, value: factsOf,
		key: func(r *PaymentRow, part string) string { return listKeyOf(r.Payment.ID, r.Payment.Project, part) },
	}
}
