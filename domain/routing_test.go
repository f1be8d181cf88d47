package domain_test

import (
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"payledger/domain"
)

func routes(rules ...domain.Rule) domain.RoutingTable { return rules }

func TestChooseByCurrencyThenRangeThenWeight(t *testing.T) {
	t.Parallel()
	table := routes(
		domain.Rule{Route: "small", Currency: "RUB", Min: 1, Max: 10_000, Weight: 1},
		domain.Rule{Route: "large", Currency: "RUB", Min: 10_001, Max: domain.MaxAmount, Weight: 3},
		domain.Rule{Route: "large-b", Currency: "RUB", Min: 10_001, Max: domain.MaxAmount, Weight: 2},
		domain.Rule{Route: "resting", Currency: "RUB", Min: 1, Max: domain.MaxAmount, Weight: 0},
		domain.Rule{Route: "euro", Currency: "EUR", Min: 500, Max: 600, Weight: math.MaxUint32},
	)
	for _, tt := range []struct {
		amount   domain.Amount
		currency domain.Currency
		draw     uint64
		want     string
	}{
		{1, "RUB", 0, "small"},
		{10_000, "RUB", math.MaxUint64, "small"},
		{10_001, "RUB", 0, "large"},
		{10_001, "RUB", 2, "large"},
		{10_001, "RUB", 3, "large-b"},
		{10_001, "RUB", 4, "large-b"},
		{10_001, "RUB", 5, "large"}, // around again
		{domain.MaxAmount, "RUB", 8, "large-b"},
		{499, "EUR", 0, ""},
		{500, "EUR", 0, "euro"},
		{600, "EUR", math.MaxUint64, "euro"},
		{601, "EUR", 0, ""},
		{500, "USD", 0, ""},
		{500, "", 0, ""},
	} {
		got, ok := table.Choose(tt.amount, tt.currency, tt.draw)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("Choose(%s %s, %d) = %q, %t, want %q", tt.amount, tt.currency, tt.draw, got, ok, tt.want)
		}
	}
}

func TestARuleWithoutACurrencyTakesEvery(t *testing.T) {
	t.Parallel()
	table := routes(domain.Rule{Route: "any", Min: 1, Max: 100, Weight: 1})
	for _, c := range []domain.Currency{"RUB", "EUR", "ZWG"} {
		if got, ok := table.Choose(100, c, 7); !ok || got != "any" {
			t.Errorf("Choose(1.00 %s) = %q, %t", c, got, ok)
		}
	}
	if got, ok := table.Choose(101, "RUB", 7); ok {
		t.Errorf("Choose(1.01 RUB) = %q", got)
	}
}

func TestSandboxTakesEveryPayment(t *testing.T) {
	t.Parallel()
	table := domain.SandboxTable()
	if err := table.Validate(); err != nil {
		t.Error(err)
	}
	for _, a := range []domain.Amount{domain.MinAmount, domain.MaxAmount} {
		if got, ok := table.Choose(a, "EUR", 3); !ok || got != "sandbox" {
			t.Errorf("Choose(%s EUR) = %q, %t", a, got, ok)
		}
	}
}

func TestNothingToChooseFrom(t *testing.T) {
	t.Parallel()
	for name, table := range map[string]domain.RoutingTable{
		"no table":         nil,
		"only weight zero": routes(domain.Rule{Route: "a", Currency: "RUB", Min: 1, Max: domain.MaxAmount}),
	} {
		if got, ok := table.Choose(100, "RUB", 1); ok || got != "" {
			t.Errorf("%s: Choose = %q, %t", name, got, ok)
		}
	}
}

// TestEveryRouteGetsItsShare tries each draw from 0 to the total weight once: every
// matching rule is chosen exactly weight times.
func TestEveryRouteGetsItsShare(t *testing.T) {
	t.Parallel()
	rule := rapid.Custom(func(t *rapid.T) domain.Rule {
		lo := rapid.Int64Range(1, 20).Draw(t, "min")
		return domain.Rule{
			Route:    rapid.StringMatching(`[a-z]{8}`).Draw(t, "route"),
			Currency: rapid.SampledFrom([]domain.Currency{"", "RUB", "EUR"}).Draw(t, "currency"),
			Min:      domain.Amount(lo),
			Max:      domain.Amount(rapid.Int64Range(lo, 30).Draw(t, "max")),
			Weight:   rapid.Uint32Range(0, 20).Draw(t, "weight"),
		}
	})
	tables := rapid.SliceOfNDistinct(rule, 0, 8, func(r domain.Rule) string { return r.Route })
	rapid.Check(t, func(t *rapid.T) {
		table := domain.RoutingTable(tables.Draw(t, "table"))
		amount := domain.Amount(rapid.Int64Range(1, 30).Draw(t, "amount"))
		currency := rapid.SampledFrom([]domain.Currency{"RUB", "EUR", "USD"}).Draw(t, "currency")
		if err := table.Validate(); err != nil {
			t.Fatal(err)
		}
		want := map[string]uint64{}
		var total uint64
		for _, r := range table {
			fits := (r.Currency == "" || r.Currency == currency) && r.Min <= amount && amount <= r.Max
			if fits && r.Weight > 0 {
				want[r.Route] = uint64(r.Weight)
				total += uint64(r.Weight)
			}
		}
		start := rapid.Uint64Range(0, math.MaxUint64/2).Draw(t, "start")
		got := map[string]uint64{}
		for i := range max(total, 1) {
			route, ok := table.Choose(amount, currency, start+i)
			if ok != (total > 0) {
				t.Fatalf("Choose(%s %s) = %q, %t with a total weight of %d", amount, currency, route, ok, total)
			}
			if ok {
				got[route]++
			}
		}
		if len(got) != len(want) {
			t.Fatalf("chosen %v, want %v", got, want)
		}
		for route, n := range want {
			if got[route] != n {
				t.Fatalf("chosen %v, want %v", got, want)
			}
		}
	})
}

func TestValidateRoutingTable(t *testing.T) {
	t.Parallel()
	good := domain.Rule{Route: "a-1_z", Currency: "RUB", Min: domain.MinAmount, Max: domain.MaxAmount, Weight: 1}
	if err := routes(good, good).Validate(); err != nil {
		t.Errorf("a good table: %v", err)
	}
	if err := routes().Validate(); err != nil {
		t.Errorf("an empty table: %v", err)
	}
	for name, tt := range map[string]struct {
		change func(*domain.Rule)
		want   string
	}{
		"no route":          {func(r *domain.Rule) { r.Route = "" }, "route"},
		"long route":        {func(r *domain.Rule) { r.Route = strings.Repeat("a", 33) }, "route"},
		"upper case":        {func(r *domain.Rule) { r.Route = "Bank" }, "route"},
		"subject separator": {func(r *domain.Rule) { r.Route = "a.b" }, "route"},
		"subject wildcard":  {func(r *domain.Rule) { r.Route = "*" }, "route"},
		"subject tail":      {func(r *domain.Rule) { r.Route = ">" }, "route"},
		"blank":             {func(r *domain.Rule) { r.Route = "a b" }, "route"},
		"not ASCII":         {func(r *domain.Rule) { r.Route = "банк" }, "route"},
		"lower currency":    {func(r *domain.Rule) { r.Currency = "rub" }, "currency"},
		"no minor digits":   {func(r *domain.Rule) { r.Currency = "JPY" }, "currency"},
		"zero minimum":      {func(r *domain.Rule) { r.Min = 0 }, "min"},
		"great maximum":     {func(r *domain.Rule) { r.Max = domain.MaxAmount + 1 }, "max"},
		"empty range":       {func(r *domain.Rule) { r.Min, r.Max = 2, 1 }, "max: want an amount from min"},
	} {
		wrong := good
		tt.change(&wrong)
		err := routes(good, wrong).Validate()
		if err == nil || !strings.Contains(err.Error(), "rule 2") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error about rule 2 and its %s", name, err, tt.want)
		}
	}
	for _, longest := range []domain.Rule{
		{Route: strings.Repeat("a", 32), Currency: "RUB", Min: 1, Max: 1},
		{Route: "a", Min: domain.MaxAmount, Max: domain.MaxAmount},
	} {
		if err := routes(longest).Validate(); err != nil {
			t.Errorf("%+v: %v", longest, err)
		}
	}
}
