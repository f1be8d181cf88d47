package projections

import (
	"context"
	"slices"

	"payledger/domain"
)

// newestKept is how many ids a search by prefix keeps in memory at once, half
// a megabyte.
const newestKept = 1 << 15

// begin looks at the payments of a part of an index that is ordered by texts:
// it is passed through for the newest ones, again from the last of these while
// there are more; done reports that there are not.
func (s *paymentSearch) begin(ctx context.Context) (done bool, err error) {
	if s.index == nil {
		if err := s.choose(ctx); err != nil {
			return false, err
		}
	}
	newest := newestIDs{within: s.ids, keep: s.keep}
	rest := s.part
	for {
		found, next, err := window(ctx, s.e, s.index, rest, false, maxWindow)
		if err != nil {
			return false, err
		}
		for _, f := range found {
			if len(f.key) >= idSize && s.q.allows(f.value) {
				newest.add(idOf(f.key))
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

// choose finds the part of an index with the fewest payments to look at: those
// whose description begins with the prefix, or else has the rarest of the
// words. All words' parts are counted side by side until one is at its end.
func (s *paymentSearch) choose(ctx context.Context) error {
	if s.q.DescriptionPrefix != "" {
		s.index, s.part = &s.e.description.table, prefixRange(descriptionStart(s.project, s.q.DescriptionPrefix))
		return nil
	}
	s.index = &s.e.words.table
	rests := make([]keyRange, len(s.q.DescriptionWords))
	for i, w := range s.q.DescriptionWords {
		rests[i] = prefixRange(wordStart(s.project, w))
	}
	for {
		for i, w := range s.q.DescriptionWords {
			if len(rests) == 1 {
				s.part = rests[0]
				return nil
			}
			_, next, err := window(ctx, s.e, s.index, rests[i], false, maxWindow)
			if err != nil {
				return err
			}
			if next == nil {
				s.part = prefixRange(wordStart(s.project, w))
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
