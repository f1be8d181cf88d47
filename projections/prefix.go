package projections

import (
	"context"
	"slices"

	"payledger/domain"
)

// newestKept is how many ids a search by prefix keeps in memory at once, half
// a megabyte.
const newestKept = 1 << 15

// begin looks at the payments whose description begins with the prefix. Their
// index is ordered by description, so it is passed through for the newest
// ones, again from the last of these while there are more; done reports that
// there are not.
func (s *paymentSearch) begin(ctx context.Context) (done bool, err error) {
	newest := newestIDs{within: s.ids, keep: s.keep}
	rest := prefixRange(descriptionStart(s.project, s.q.DescriptionPrefix))
	for {
		found, next, err := window(ctx, s.e, &s.e.description.table, rest, false, maxWindow)
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

// newestIDs keeps the highest ids it is given.
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
		n.ids = n.sorted()
		n.within.lo = n.ids[n.keep-1] // lower ones would be left out
	}
}

func (n *newestIDs) sorted() []domain.ID {
	slices.SortFunc(n.ids, func(a, b domain.ID) int { return b.Compare(a) })
	if len(n.ids) > n.keep {
		n.ids, n.cut = n.ids[:n.keep], true
	}
	return n.ids
}
