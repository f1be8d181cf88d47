package projections

import "payledger/domain"

// byProjectView lists a project's payments: project, 0, id.
type byProjectView struct{ table[facts] }

func newByProjectView() *byProjectView {
	return &byProjectView{newTable("payments_by_project", appendFacts, parseFacts)}
}

func (*byProjectView) version() int { return 1 }

func (v *byProjectView) move(before, after *paymentRow) {
	if p := &after.Payment; before == nil {
		v.insert(listKeyOf(p.ID, p.Project), factsOf(p))
	}
}

func byProjectKey(project string) string { return listKey(project) }

func idKey(id domain.ID) string { return string(id[:]) }
