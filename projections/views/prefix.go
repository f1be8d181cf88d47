package views

import (
	"context"
	"slices"

	"payledger/domain"
	"payledger/projections/table"
)

// maxNewest is how many ids a search by prefix keeps in memory at once, half
// a megabyte.
const maxNewest = 1 << 15

// begin searches a part of an index that is ordered by text, not by time. It
// passes through the part for the newest payments of it, and once more for the
// next newest each time it is called; done reports that there are no more.
func (s *paymentSearch) begin(ctx context.Context) (done bool, err error) {
	if s.index == nil {
		if err := s.choose(ctx); err != nil {
			return false, err
		}
	}
	newest := newestIDs{within: s.ids, keep: s.keep}
	rest := s.part
	for {
		found, next, err := s.index.Window(ctx, rest, false, table.MaxWindow)
		if err != nil {
			return false, err
		}
		for _, f := range found {
			if len(f.Key) >= idSize && s.q.allows(f.Value) {
				newest.add(idOf(f.Key))
			}
		}
		if next == nil {
			break
		}
		rest = *next
	}
	ids := newest.sorted()
	keys := make([]string, len(ids))
	for i, id := range ids {
		keys[i] = idKey(id)
	}
	if err := s.read(ctx, keys); err != nil {
		return false, err
	}
	if len(ids) > 0 {
		s.ids.hi = ids[len(ids)-1]
	}
	return !newest.cut, nil
}

// choose finds the part of an index with the fewest payments to examine: the descriptions that
// begin with the prefix, or else the rarest of the terms. The parts of all terms are read in
// parallel until one ends.
func (s *paymentSearch) choose(ctx context.Context) error {
	if s.q.DescriptionPrefix != "" {
		s.index, s.part = s.views.description.Table, table.Prefix(descriptionStart(s.project, s.q.DescriptionPrefix))
		return nil
	}
	s.index = s.views.terms.Table
	rests := make([]table.Range, len(s.q.DescriptionTerms))
	for i, t := range s.q.DescriptionTerms {
		rests[i] = table.Prefix(termStart(s.project, t))
	}
	for {
		for i, t := range s.q.DescriptionTerms {
			if len(rests) == 1 {
				s.part = rests[0]
				return nil
			}
			_, next, err := s.index.Window(ctx, rests[i], false, table.MaxWindow)
			if err != nil {
				return err
			}
			if next == nil {
				s.part = table.Prefix(termStart(s.project, t))
				return nil
			}
			rests[i] = *next
		}
	}
}

// newestIDs keeps the highest ids it is given, each once.
type newestIDs struct {
	within idRange
	keep   int
	ids    []domain.ID
	cut    bool // some were left out
}

func (n *newestIDs) add(id domain.ID) {
	if !n.within.has(id) {
		return
	}
	n.ids = append(n.ids, id)
	if len(n.ids) == 2*n.keep {
		if n.ids = n.sorted(); n.cut {
			n.within.lo = n.ids[n.keep-1] // lower ones would be left out
		}
	}
}

func (n *newestIDs) sorted() []domain.ID {
	slices.SortFunc(n.ids, func(a, b domain.ID) int { return b.Compare(a) })
	n.ids = slices.Compact(n.ids)
	if len(n.ids) > n.keep {
		n.ids, n.cut = n.ids[:n.keep], true
	}
	return n.ids
}
