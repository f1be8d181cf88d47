package domain

import "fmt"

// Rule offers one route for payments of a currency and an amount range.
type Rule struct {
	Route    string   `json:"route"`
	Currency Currency `json:"currency"` // empty: every currency
	Min      Amount   `json:"min"`      // inclusive
	Max      Amount   `json:"max"`      // inclusive
	Weight   uint32   `json:"weight"`
}

// RoutingTable holds the rules that choose a payment's route: by currency, then
// by amount range, then by weight among the rules that match.
type RoutingTable []Rule

// SandboxRoute is the route of the simulated provider.
const SandboxRoute = "sandbox"

// SandboxTable routes every payment to the sandbox.
func SandboxTable() RoutingTable {
	return RoutingTable{{Route: SandboxRoute, Min: MinAmount, Max: MaxAmount, Weight: 1}}
}

// Choose chooses a route among the rules that match, by weight: uniformly
// distributed draws give each rule its share. A rule of weight 0 is never
// chosen. ok is false when no rule matches.
func (t RoutingTable) Choose(a Amount, c Currency, draw uint64) (route string, ok bool) {
	var total uint64
	for _, r := range t {
		if r.takes(a, c) {
			total += uint64(r.Weight)
		}
	}
	if total == 0 {
		return "", false
	}
	left := draw % total
	for _, r := range t {
		if !r.takes(a, c) {
			continue
		}
		if left < uint64(r.Weight) {
			return r.Route, true
		}
		left -= uint64(r.Weight)
	}
	return "", false
}

func (r Rule) takes(a Amount, c Currency) bool {
	return (r.Currency == "" || r.Currency == c) && r.Min <= a && a <= r.Max
}

// Validate checks the table's form. The error names the wrong rule, counted
// from 1.
func (t RoutingTable) Validate() error {
	for i, r := range t {
		switch {
		case !validRoute(r.Route):
			return fmt.Errorf("rule %d: route %q: want 1 to 32 of a-z, 0-9, - and _", i+1, r.Route)
		case r.Currency != "" && !r.Currency.TwoMinorDigits():
			return fmt.Errorf("rule %d: currency %q: want none or an ISO 4217 code with two minor digits", i+1, r.Currency)
		case r.Min < MinAmount || r.Max > MaxAmount || r.Min > r.Max:
			return fmt.Errorf("rule %d: want %s ≤ min ≤ max ≤ %s", i+1, MinAmount, MaxAmount)
		}
	}
	return nil
}

// validRoute reports whether a route name is usable as one token of a NATS subject.
func validRoute(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for _, b := range []byte(s) {
		if (b < 'a' || b > 'z') && !isDigit(b) && b != '-' && b != '_' {
			return false
		}
	}
	return true
}
