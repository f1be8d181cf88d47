package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"testing"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/datadir"
	"payledger/domain"
	"payledger/domain/settlement"
	"payledger/httpapi/wire"
)

// TestSettlementList: a report is listed before its first line is recorded, and its lines in suspense
// count once, however many currencies it has.
func TestSettlementList(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	start(t, "demo", "--data", data)
	m := cli.ClientOf(datadir.Dir(data).DialSocket, "")
	post := func(path string, body any) {
		t.Helper()
		var s wire.Settlement
		if err := m.Call(t.Context(), http.MethodPost, path, body, &s); err != nil {
			t.Fatal(err)
		}
	}
	var lines []settlement.Line
	var all settlement.Summary
	for i, c := range []domain.Currency{"RUB", "EUR", "USD"} {
		l := settlement.Line{
			Number: i + 1, Kind: settlement.KindFee, Fee: domain.SumOf(100), Net: domain.SumOf(-100), Currency: c, SettledOn: "2026-11-20",
		}
		if i == 0 {
			l.Kind, l.Gross, l.Fee, l.Net = settlement.KindOther, domain.SumOf(100), domain.Sum{}, domain.SumOf(100)
		}
		lines, all = append(lines, l), all.Add(l)
	}
	listed := func(want ...string) {
		t.Helper()
		out := done(t, "settlement", "list", "--limit", "1", "--data", data)
		for _, row := range want {
			if !regexp.MustCompile(`(?m)^sandbox:r +recording +` + row).MatchString(out) {
				t.Errorf("want a row %s, and it lists\n%s", row, out)
			}
		}
	}
	post("/admin/settlements", wire.OpenSettlement{Route: "sandbox", Report: "r", SHA256: domain.Digest{1}, Summary: all})
	listed(`.*0 +0 +0\.00 +0\.00 +0\.00`)
	post("/admin/settlements/sandbox:r/lines", wire.SettlementLines{Lines: lines})
	const days = "2026-11-20 +2026-11-20 +"
	listed(days+"1 +1 +0.00 +1.00 +-1.00 +EUR", days+"1 +1.00 +0.00 +1.00 +RUB", days+"1 +0.00 +1.00 +-1.00 +USD")
}
