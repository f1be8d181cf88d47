package main_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"text/tabwriter"
)

// budget is how much code a promise may take: lines that are neither blank nor a comment,
// tests and what only tests use apart. A promise that needs more takes it from a
// mechanism that it removes; a raised bound is a commit of its own that says why.
type budget struct {
	promise string
	most    int
	// places are the files and folders that keep it, without ".go" and "/". A file belongs
	// to the longest that it begins with.
	places []string
}

func budgets() []budget {
	return []budget{
		{"payments, refunds and projects, what is said about them and why", 3994, []string{"domain", "eventstore/latefunds"}},
		{"events are on disk before the answer", 4810, []string{"eventstore", "eventstore/bolt"}},
		{"state follows from the log, lists and searches", 3062, []string{"projections"}},
		{"books", 495, []string{"projections/books"}},
		{"auditors verify the log", 4159, []string{
			"eventstore/audit", "eventstore/translog", "projections/check", "projections/views/translog", "cmd/payledger/checkpoints",
			"cmd/payledger/verify", "cmd/payledger/replay", "cmd/payledger/log", "cmd/payledger/service/evidence", "cmd/payledger/service/logfile", "eventstore/opaque",
			"httpapi/admin/evidence", "httpapi/admin/verify", "httpapi/merchant/log", "notifier/bus/checkpoints",
		}},
		{"backup, export, restore, and what is saved of damaged files", 2844, []string{
			"cmd/payledger/backup", "cmd/payledger/export", "cmd/payledger/restore",
			"httpapi/admin/backup", "eventstore/bolt/backup", "eventstore/bolt/find", "eventstore/bolt/background",
		}},
		{"money comes in at providers", 6372, []string{
			"notifier/collect", "notifier/connector", "notifier/worker", "httpapi/notification", "cmd/payledger/routesfile", "cmd/payledger/connector", "cmd/payledger/routes",
			"cmd/payledger/service/attempts", "cmd/payledger/service/connectors", "cmd/payledger/service/routes",
			"httpapi/admin/routes", "httpapi/admin/suspense", "httpapi/admin/work", "cmd/payledger/admincmd/routes", "cmd/payledger/admincmd/suspense",
			"projections/views/attempts", "httpapi/admin/dispute", "cmd/payledger/admincmd/dispute",
		}},
		{"what providers pay out is settled line by line, whatever comes first", 2797, []string{
			"domain/settlement", "eventstore/audit/settlement", "projections/views/settlements", "httpapi/merchant/settlements", "httpapi/admin/settlement", "httpapi/wire/settlement",
			"cmd/payledger/settlement", "cmd/payledger/admincmd/settlement", "notifier/worker/settler",
		}},
		{"what providers settle is read from their reports", 648, []string{"cmd/payledger/reports"}},
		{"payouts are recorded", 588, []string{
			"domain/settlement/payout", "eventstore/audit/payout", "eventstore/payouts", "httpapi/admin/payout", "httpapi/merchant/payouts", "httpapi/wire/payout", "cmd/payledger/admincmd/payout",
		}},
		{"what a payment was for can be erased", 559, []string{
			"eventstore/details", "eventstore/audit/details", "eventstore/bolt/record/details", "eventstore/bolt/scrub", "eventstore/boltfile/scrub",
			"httpapi/merchant/erase", "httpapi/admin/erase", "httpapi/wire/erasure", "cmd/payledger/service/scrub",
			"notifier/worker/retention",
		}},
		{"outcomes of providers are judged", 1315, []string{
			"notifier/signals", "httpapi/admin/parked", "cmd/payledger/admincmd/signals", "notifier/bus/signal",
		}},
		{"webhooks", 4836, []string{
			"domain/deliveries", "notifier/delivery", "notifier/webhook", "httpapi/webhooks", "httpapi/admin/webhooks", "cmd/payledger/receive", "cmd/payledger/listen",
			"cmd/payledger/service/deliveries", "cmd/payledger/admincmd/webhook", "projections/views/deliver",
		}},
		{"NATS: relay, subscribers, the embedded server", 3390, []string{
			"notifier", "notifier/bus", "cmd/payledger/service/bus", "cmd/payledger/admincmd/natsconsumer", "httpapi/admin/consumers", "cmd/payledger/cli/nats",
			"cmd/payledger/clusternode/credentials",
		}},
		{"three nodes", 3786, []string{
			"eventstore/replog", "eventstore/bolt/batch", "httpapi/peer", "cmd/payledger/clusternode", "notifier/bus/embedded/cluster",
			"cmd/payledger/cluster", "cmd/payledger/demonodes", "cmd/payledger/checkpoints/witness", "cmd/payledger/checkpoints/differ",
			"cmd/payledger/service/node", "cmd/payledger/admincmd/nodes", "httpapi/admin/nodes",
		}},
		{"the merchant's API", 2440, []string{"httpapi/merchant", "httpapi/wire"}},
		{"one form of requests, errors and limits", 2446, []string{"httpapi/edge", "httpapi/conns", "httpapi", "httpapi/wire/strict"}},
		{"payment page", 813, []string{"httpapi/checkout"}},
		{"account", 3605, []string{
			"httpapi/account", "httpapi/ui", "httpapi/merchant/alerts", "httpapi/merchant/lookup", "httpapi/merchant/overview",
		}},
		{"documents", 320, []string{"httpapi/docs"}},
		{"the operator's API", 679, []string{"httpapi/admin"}},
		{"commands", 2359, []string{"cmd/payledger", "cmd/payledger/admincmd", "cmd/payledger/cli"}},
		{"composition and data directory", 2878, []string{
			"cmd/payledger/service", "cmd/payledger/datadir", "cmd/payledger/process",
			"cmd/payledger/serve", "cmd/payledger/init", "cmd/payledger/config",
		}},
	}
}

// forTests reports whether a folder has code that the product does not contain.
func forTests(folder string) bool {
	for _, other := range []string{"cmd/payledger-bench", "cmd/doctest", "cmd/freeports", "eventstore/memory"} {
		if folder == other || strings.HasPrefix(folder, other+"/") {
			return true
		}
	}
	return slices.ContainsFunc(strings.Split(folder, "/"), func(part string) bool { return strings.HasSuffix(part, "test") })
}

// TestBudget counts the code of each promise; with -v it prints the table.
func TestBudget(t *testing.T) {
	t.Parallel()
	rows := budgets()
	taken, of, unowned := spent(t, os.DirFS("../.."), rows)
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	sum, most := 0, 0
	for i, r := range rows {
		fmt.Fprintf(w, "%d\t%d\t  %s\n", taken[i], r.most, r.promise)
		sum, most = sum+taken[i], most+r.most
		if taken[i] > r.most {
			t.Errorf("%s: %d lines of code, and its budget is %d", r.promise, taken[i], r.most)
		}
		for _, place := range r.places {
			if of[place] == 0 {
				t.Errorf("%s: nothing is at %s", r.promise, place)
			}
		}
	}
	fmt.Fprintf(w, "%d\t%d\t  all\n", sum, most)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("lines of code and budgets:\n%s", &table)
	for _, name := range unowned {
		t.Errorf("%s belongs to no promise", name)
	}
}

// TestBudgetBites spends more than a budget.
func TestBudgetBites(t *testing.T) {
	t.Parallel()
	rows := []budget{{"a", 2, []string{"a"}}, {"b", 1, []string{"a/b", "c/d"}}}
	code := &fstest.MapFile{Data: []byte("package x\n\n// A comment.\n\tvar x int // a line\n")}
	taken, of, unowned := spent(t, fstest.MapFS{
		"a/x.go": code, "a/x_test.go": code, "a/b/x.go": code, "a/b/btest/x.go": code, "c/d.go": code, "c/e.go": code,
	}, rows)
	if taken[0] != 2 || taken[1] != 4 || of["c/d"] != 2 || fmt.Sprint(unowned) != "[c/e.go]" {
		t.Errorf("taken %v, places %v, unowned %v", taken, of, unowned)
	}
}

// spent counts the lines of code of each budget and place, and lists the files of none.
func spent(t *testing.T, tree fs.FS, rows []budget) (taken []int, of map[string]int, unowned []string) {
	t.Helper()
	taken, of = make([]int, len(rows)), make(map[string]int)
	sources(t, tree, func(name string, src []byte) {
		if forTests(path.Dir(name)) {
			return
		}
		owner, longest := -1, ""
		for i, r := range rows {
			for _, place := range r.places {
				if strings.HasPrefix(name, place) && len(place) > len(longest) {
					owner, longest = i, place
				}
			}
		}
		if owner < 0 {
			unowned = append(unowned, name)
			return
		}
		n := 0
		for line := range bytes.Lines(src) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				n++
			}
		}
		taken[owner], of[longest] = taken[owner]+n, of[longest]+n
	})
	return taken, of, unowned
}
