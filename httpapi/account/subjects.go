package account

import (
	"iter"

	"payledger/domain"
	"payledger/domain/projects"
)

// subject names what a row of a list is about: a payment by its description.
type subject struct {
	pageData
	Payment     domain.ID
	Description string // "" for none
}

// Tail is the end of the payment's id, which distinguishes payments without a description.
func (s subject) Tail() string {
	id := s.Payment.String()
	return id[len(id)-6:]
}

// subjects finds what rows are about.
type subjects struct {
	pageData
	descriptions map[domain.ID]string
}

// Subject is what a row about a payment says of it.
func (s subjects) Subject(payment domain.ID) subject {
	return subject{s.pageData, payment, s.descriptions[payment]}
}

func (v *visit) subjects(d pageData, payments iter.Seq[domain.ID]) (subjects, error) {
	if !v.Caller.Key.Has(projects.Read) { // the log alone has no descriptions
		return subjects{pageData: d}, nil
	}
	all, err := v.API.Descriptions(v.Ctx(), v.Caller, payments)
	return subjects{d, all}, err
}

// each are the ids that rows name.
func each[T any](rows []T, payment func(T) *domain.ID) iter.Seq[domain.ID] {
	return func(yield func(domain.ID) bool) {
		for _, r := range rows {
			if id := payment(r); id != nil && !yield(*id) {
				return
			}
		}
	}
}
