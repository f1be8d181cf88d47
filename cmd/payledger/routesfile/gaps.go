package routesfile

import (
	"cmp"
	"maps"
	"slices"

	"payledger/domain"
)

// Gap is a range of amounts for which there is no rule: payments of it are refused
// with no_route.
type Gap struct {
	Currency domain.Currency `json:"currency,omitzero"` // empty: every currency that no rule names
	Min      domain.Amount   `json:"min"`               // inclusive
	Max      domain.Amount   `json:"max"`               // inclusive
}

// Gaps are the amounts that no rule takes, by currency; those of the currencies
// that no rule names come last. A rule of weight 0 takes none.
func Gaps(t domain.RoutingTable) []Gap {
	named := make(map[domain.Currency]bool)
	for _, rule := range t {
		if rule.Currency != "" {
			named[rule.Currency] = true
		}
	}
	var gaps []Gap
	for _, currency := range append(slices.Sorted(maps.Keys(named)), "") {
		var rules domain.RoutingTable
		for _, rule := range t {
			if rule.Weight > 0 && (rule.Currency == "" || rule.Currency == currency) {
				rules = append(rules, rule)
			}
		}
		slices.SortFunc(rules, func(a, b domain.Rule) int { return cmp.Compare(a.Min, b.Min) })
		next := domain.MinAmount // the lowest amount that may be in a gap
		for _, rule := range rules {
			if rule.Min > next {
				gaps = append(gaps, Gap{currency, next, rule.Min - 1})
			}
			next = max(next, rule.Max+1)
		}
		if next <= domain.MaxAmount {
			gaps = append(gaps, Gap{currency, next, domain.MaxAmount})
		}
	}
	return gaps
}
