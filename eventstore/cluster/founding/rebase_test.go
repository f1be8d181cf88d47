package founding

import (
	"path/filepath"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
)

// TestJudge: LOG is made anew behind the file that has most, and only if all files can go on
// with it.
func TestJudge(t *testing.T) {
	t.Parallel()
	sums := []string{"", "one", "two", "three", "four", "five"}
	at := func(node string, group uint64, last eventstore.Position) Standing {
		return Standing{
			Node: node, Ledger: domain.ID{1}, Follows: domain.ID{2}, Group: group, First: last, Last: last, MissingMillis: Lost.Milliseconds(),
		}
	}
	for name, c := range map[string]struct {
		change     func(a, b, c *Standing)
		most       string
		wait, want string
	}{
		"all have the same":            {func(_, _, _ *Standing) {}, "a", "", ""},
		"one has more":                 {func(_, b, _ *Standing) { *b = at("b", 9, 5) }, "b", "", ""},
		"one has more without records": {func(_, _, c *Standing) { c.Group = 12 }, "c", "", ""},
		"one follows no LOG yet":       {func(a, _, _ *Standing) { *a = at("a", 0, 2); a.Follows = domain.ID{} }, "b", "", ""},
		"the servers have just started": {
			func(_, _, c *Standing) { c.MissingMillis = 3400 }, "a", "node c has been told for 3s that there is no LOG, and it takes 10s", "",
		},
		"one sees LOG":               {func(a, _, _ *Standing) { a.MissingMillis = 0 }, "a", "node a has been told for 0s", ""},
		"none follows a LOG":         {func(a, b, c *Standing) { a.Follows, b.Follows, c.Follows = domain.ID{}, domain.ID{}, domain.ID{} }, "", "", "the cluster has not begun"},
		"one has stopped":            {func(_, b, _ *Standing) { b.Stopped = "its file is of another history" }, "", "", "node b takes no part any more: its file is of another history"},
		"a number that no group has": {func(_, b, _ *Standing) { b.Group = 1 << 63 }, "", "", "node b says that it has group 9223372036854775808 and position 4"},
		"a group behind its events":  {func(_, b, _ *Standing) { b.First = 6 }, "", "", "node b says that it has group 8 and position 4"},
		"another event log":          {func(_, _, c *Standing) { c.Ledger = domain.ID{7} }, "", "", "node c has the event log"},
		"another LOG":                {func(_, b, _ *Standing) { b.Follows = domain.ID{7} }, "", "", "node b follows LOG"},
		"other events":               {func(_, _, c *Standing) { c.Sums = []string{"four", "four", "other"} }, "", "", "the logs of nodes c and a differ at or before position 4"},
		"a shorter file with other events": {
			func(_, b, _ *Standing) { *b = at("b", 5, 2); b.Sums = []string{"", "other", ""} }, "", "", "the logs of nodes b and a differ at or before position 2",
		},
		"more events in the same groups":    {func(_, b, _ *Standing) { *b = at("b", 8, 5) }, "", "", "the logs of nodes b and a differ at or before position 4"},
		"more events and fewer groups":      {func(_, _, c *Standing) { *c = at("c", 3, 5) }, "", "", "the logs of nodes c and a differ at or before position 4"},
		"more events that no LOG has taken": {func(a, _, _ *Standing) { *a = at("a", 0, 5); a.Follows = domain.ID{} }, "", "", "the logs of nodes a and b differ at or before position 4"},
	} {
		all := []Standing{at("a", 8, 4), at("b", 8, 4), at("c", 8, 4)}
		c.change(&all[0], &all[1], &all[2])
		for i := range all {
			for _, end := range all {
				if len(all[i].Sums) < len(all) {
					sum := ""
					if end.Last <= all[i].Last {
						sum = sums[end.Last]
					}
					all[i].Sums = append(all[i].Sums, sum)
				}
			}
		}
		most, wait, err := longestPrefix(all)
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", name, err, c.want)
			}
		case err != nil || most.Node != c.most:
			t.Errorf("%s: node %s has most, %v, want %s", name, most.Node, err, c.most)
		case (wait != nil) != (c.wait != "") || wait != nil && !strings.Contains(wait.Error(), c.wait):
			t.Errorf("%s: it waits for %v, want %q", name, wait, c.wait)
		}
	}
}

// TestStandingIsBounded: a question for more positions than members have is not answered.
func TestStandingIsBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ledger.db")
	if err := bolt.Init(path, domain.ID{1}); err != nil {
		t.Fatal(err)
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for bytes, ok := range map[int]bool{0: true, 8 * maxPositions: true, 8 * (maxPositions + 1): false, 7: false} {
		s, err := StandingOf(t.Context(), file, 0, make([]byte, bytes))
		if (err == nil) != ok || ok && len(s.Sums) != bytes/8 {
			t.Errorf("%d bytes: %d sums, %v", bytes, len(s.Sums), err)
		}
	}
}
