package views

import "payledger/projections/table"

// descriptionView finds a project's payments by description: project, 0,
// description, 0, id. Payments without a description are not in it.
type descriptionView struct{ *table.Table[facts] }

// textFill is how full pages of texts become before they are split. Texts come
// in any order, but the ids of one term, and most merchants' order numbers, rise.
// So 0.7 is between 0.9, best for rising keys, and 0.5, best for random ones.
const textFill = 0.7

func newDescriptionView(db *table.DB) *descriptionView {
	v := &descriptionView{table.New(db, "payments_by_description", appendFacts, parseFacts)}
	v.FillPercent = textFill
	return v
}

func (v *descriptionView) update(before, after *PaymentRow) {
	p := &after.Payment
	key := func(d string) string { return listKeyOf(p.ID, p.Project, cutDescription(d)) }
	if before == nil && p.Description != nil {
		v.Insert(key(*p.Description), factsOf(p))
	}
	if gone := erased(before, after); gone != nil {
		v.Delete(key(*gone))
	}
}

// erased is the description that the payment had and has no more.
func erased(before, after *PaymentRow) *string {
	if before == nil || after.Payment.Description != nil {
		return nil
	}
	return before.Payment.Description
}

// descriptionKey begins the keys of one description, descriptionStart those of
// every description that begins like this one. Other keys may begin the same
// way, so each payment found is checked itself.
func descriptionKey(project, d string) string { return listKey(project, cutDescription(d)) }

func descriptionStart(project, d string) string { return listKey(project) + cutDescription(d) }

// cutDescription bounds the key: 128 code points are at most 512 bytes, and
// what an event may say beyond that is not needed to find it.
func cutDescription(d string) string { return d[:min(len(d), 512)] }
