package domain

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

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

// Routing is what a payment's route is chosen by.
type Routing struct {
	Table  RoutingTable
	Paused RoutingTable // the rules of paused routes, which are not in Table
}

// choose returns the route of a payment: which of the rules that match, by weight, its
// id decides, so that a repeated command leads to the same route. waits: the route is
// "", because every route that takes the payment is paused. Neither: no rule takes it.
func (r Routing) choose(id ID, a Amount, c Currency) (route string, waits bool) {
	draw := binary.BigEndian.Uint64(id[len(id)-8:])
	if route, ok := r.Table.Choose(a, c, draw); ok {
		return route, false
	}
	_, waits = r.Paused.Choose(a, c, draw)
	return "", waits
}

// refuse says which member of a payment no rule takes.
func (r Routing) refuse(c Currency) *FieldError {
	field := "currency"
	for _, rule := range slices.Concat(r.Table, r.Paused) {
		if rule.Weight > 0 && (rule.Currency == "" || rule.Currency == c) {
			field = "amount"
		}
	}
	return &FieldError{Field: field, Code: NoRoute}
}

func (r Rule) takes(a Amount, c Currency) bool {
	return (r.Currency == "" || r.Currency == c) && r.Min <= a && a <= r.Max
}

// Check returns which member of the rule is wrong, and what is wanted of it; no
// member if the rule is valid.
func (r Rule) Check() (member, want string) {
	switch {
	case !ValidRoute(r.Route):
		return "route", "1 to 32 of a-z, 0-9, - and _"
	case r.Currency != "" && !r.Currency.TwoMinorDigits():
		return "currency", "none or an ISO 4217 code with two minor digits"
	case r.Min < MinAmount || r.Min > MaxAmount:
		return "min", fmt.Sprintf("an amount from %s to %s", MinAmount, MaxAmount)
	case r.Max < r.Min || r.Max > MaxAmount:
		return "max", fmt.Sprintf("an amount from min to %s", MaxAmount)
	}
	return "", ""
}

// Validate checks the table's form. The error names the wrong rule, counted
// from 1.
func (t RoutingTable) Validate() error {
	for i, r := range t {
		if member, want := r.Check(); member != "" {
			return fmt.Errorf("rule %d: %s: want %s", i+1, member, want)
		}
	}
	return nil
}

// ValidRoute reports whether a route's name is usable as one token of a NATS
// subject.
func ValidRoute(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}
