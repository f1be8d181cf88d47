package reports_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/cmd/payledger/reports"
)

// TestWrongProfiles: the error names the file and the member.
func TestWrongProfiles(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("profiles/csv.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ old, made, want string }{
		{``, ``, ""},
		{`"delimiter": ","`, `"delimiter": "ab"`, "/delimiter: want one of"},
		{`"delimiter": ","`, `"delimiter": 7`, "/delimiter: a JSON number is of the wrong type here"},
		{`"utf-8"`, `"koi8-r"`, "/encoding: want utf-8 or windows-1251"},
		{`"decimal_marks": "."`, `"decimal_marks": "x"`, `/decimal_marks: want ".", "," or both`},
		{`"thousands_separators": ""`, `"thousands_separators": "."`, "/thousands_separators: want a selection of"},
		{`["YYYY-MM-DD"]`, `[]`, "/dates: want the forms"},
		{`["YYYY-MM-DD"]`, `["YYYY-MM-DD", "2006-01-02"]`, "/dates/1: want YYYY, MM and DD"},
		{`"preamble": 0`, `"preamble": 101`, "/preamble: want a number of lines, 0 to 100"},
		{`"fee": "fee", "dispute"`, `"fee": "charge", "dispute"`, "/kinds/fee: want payment, refund"},
		{`["refund_returned"]`, `["returned"]`, "/reversals/0: want a value that kinds has"},
		{`"unsigned": []`, `"unsigned": ["cost"]`, "/unsigned/0: want payment"},
		{`"preamble"`, `"header"`, "/header: unknown member"},
		{`"gross": "gross", `, ``, "/tables/0/columns/gross: missing"},
		{`"gross": "gross"`, `"gross": []`, "/tables/0/columns/gross: want the name of the column"},
		{`"gross": "gross"`, `"gross": {}`, "/tables/0/columns/gross: a JSON {"},
		{`"gross": "gross"`, `"gross": "gross", "amount": "gross"`, "/tables/0/columns/amount: unknown; want kind, payment_id"},
		{`"kind": "kind", `, ``, "/tables/0/kind: want either this or the column kind"},
		{`"columns": {`, `"kind": "payment", "columns": {`, "/tables/0/kind: want either this or the column kind"},
		{`"kind": "kind", `, `"kind": "kind", "kind": "kind", `, "not JSON: "},
		{`"currency": "currency", `, ``, "/tables/0/currency: want either this or the column currency"},
		{`"columns": {`, `"currency": "RUB", "columns": {`, "/tables/0/currency: want either this or the column currency"},
		{`["payment_id", "refund_id"]`, `["shop"]`, "/tables/0/optional/0: want one of the columns"},
		{`"totals": []`, `"totals": [{"label": " ", "of": "gross"}]`, "/tables/0/totals/0/label: want how the row begins"},
		{`"totals": []`, `"totals": [{"label": "Total"}]`, "/tables/0/totals/0/of: missing"},
		{`"totals": []`, `"totals": [{"label": "Total", "of": ["gross", "currency"]}]`, "/tables/0/totals/0/of: want gross, fee or net"},
		{`"totals": []`, `"totals": 1`, "/tables/0/totals: a JSON number"},
		{`"preamble": 0,`, `"preamble": 0`, "not JSON: "},
		{`"preamble": 0,`, `"preamble": 0, "preamble": 1,`, "not JSON: "},
	} {
		if !bytes.Contains(content, []byte(test.old)) {
			t.Fatalf("the profile has no %s", test.old)
		}
		name := filepath.Join(t.TempDir(), "acme.json")
		if err := os.WriteFile(name, bytes.Replace(content, []byte(test.old), []byte(test.made), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := reports.Load(name)
		if test.want == "" {
			if err != nil {
				t.Errorf("%v", err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), name+": "+test.want) {
			t.Errorf("with %s: %v; want %s", test.made, err, test.want)
		}
	}
	if _, err := reports.Load("acme"); err == nil || !strings.Contains(err.Error(), "the profiles are csv, stripe-payout-reconciliation, yookassa-registry-1251, yookassa-registry") {
		t.Errorf("%v", err)
	}
	long := filepath.Join(t.TempDir(), "long.json")
	if err := os.WriteFile(long, bytes.Repeat([]byte(" "), 64<<10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := reports.Load(long); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%v", err)
	}
}

// TestRunbookProfile reads the runbook's report with its profile.
func TestRunbookProfile(t *testing.T) {
	t.Parallel()
	runbook, err := os.ReadFile("../RUNBOOK.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(runbook), "\n## Describe a provider's reports\n")
	section, _, more := strings.Cut(section, "\n## ")
	profile := regexp.MustCompile("(?s)```json\n(.*?)```").FindStringSubmatch(section)
	report := regexp.MustCompile("(?s)```text\n(.*?)```").FindStringSubmatch(section)
	if !ok || !more || profile == nil || report == nil {
		t.Fatal("the runbook has no profile with a report")
	}
	name := filepath.Join(t.TempDir(), "acme.json")
	if err := os.WriteFile(name, []byte(profile[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	lines, fault := all(load(t, name), strings.NewReader(report[1]))
	if fault != nil {
		t.Fatal(fault)
	}
	var got []string
	for _, l := range lines {
		got = append(got, strings.Join([]string{string(l.Kind), l.PaymentID, l.Reference, l.Gross.String(), l.Fee.String(), l.Net.String(), string(l.Currency), l.SettledOn}, " "))
	}
	want := []string{
		"payment 01M7W78FJBM8T4R7B5N0C1D2E3 T-1 1250.00 31.25 1218.75 EUR 2026-11-02",
		"refund 01M7W78FJBM8T4R7B5N0C1D2E3 T-2 -250.00 0.30 -250.30 EUR 2026-11-03",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
