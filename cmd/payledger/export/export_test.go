package export

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"payledger/cmd/payledger/cli"
	"payledger/cmd/payledger/export/exporttest"
	"payledger/domain"
	"payledger/eventstore"
)

// hostile is what a provider could send: formulas, syntax, line ends.
const hostile = "=cmd|' /C calc'!A0\r\n\t; date:1999-01-01, assets:x  1 RUB \u2028\"\x00"

// books is a log of a few payments in two projects, served as the admin
// interface serves it.
func books(t *testing.T) (records []eventstore.Stored, m *cli.Client) {
	t.Helper()
	codec := eventstore.NewCodec()
	entropy := bytes.NewReader(make([]byte, 1<<16))
	ids := domain.NewIDs(func() time.Time { return time.UnixMilli(1_795_169_730_123) }, entropy, domain.ID{})
	sequence := make(map[eventstore.Stream]uint64)
	add := func(s eventstore.Stream, e domain.Event) {
		id := ids.Next()
		sequence[s]++
		body, err := codec.Encode(s, sequence[s], id, eventstore.Cause{}, e)
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, eventstore.Stored{
			Position: eventstore.Position(len(records) + 1), Stream: s, Sequence: sequence[s], Commit: id,
			At: domain.IDTime(id).Time(), Body: body,
		})
	}
	for i := range 6 {
		project := fmt.Sprintf("prj_%d", i%2)
		s := eventstore.PaymentStream(project, ids.Next())
		refund := ids.Next()
		signal := domain.Signal{Route: "bank", Outcome: "paid", Reference: "r", Amount: 1050, Currency: "RUB", StartedAt: 1}
		add(s, domain.PaymentCreated{Amount: 1050, Currency: "RUB", Payload: domain.EmptyObject()})
		add(s, domain.PaymentPaid{Signal: signal})
		signal.Reference, signal.Amount, signal.Currency = hostile, 99, domain.Currency([]string{"RUB", "usd", hostile}[i%3])
		add(s, domain.PaymentLateFunds{Reason: domain.ReasonWrongAmount, Signal: signal})
		add(s, domain.RefundCreated{RefundID: refund, Amount: 1050, Currency: "RUB"})
		signal.Amount, signal.Currency, signal.RefundID = 1050, "RUB", &refund
		if i%2 == 0 {
			add(s, domain.RefundSucceededEvent{RefundID: refund, Signal: signal})
		} else {
			add(s, domain.RefundFailedEvent{RefundID: refund, Signal: signal})
		}
	}
	return records, serveRecords(records, 0)
}

// serveRecords is an admin interface that has these records. With cut it
// breaks off after that many bytes of events.
func serveRecords(records []eventstore.Stored, cut int) *cli.Client {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		after, err := strconv.ParseUint(r.URL.Query().Get("after"), 10, 64)
		if err != nil {
			panic(err)
		}
		var body []byte
		for _, s := range records {
			if project := r.URL.Query().Get("project"); uint64(s.Position) > after && (project == "" || project == s.Stream.Project) {
				body, _ = jsonlFormat{}.render(body, s)
			}
		}
		if cut > 0 && cut < len(body) {
			body = body[:cut]
		}
		w.Write(body) //nolint:errcheck // a recorder
	})
	return &cli.Client{HTTP: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result(), nil
	})}}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func exportOf(m *cli.Client, format string, last eventstore.Position) *Pass {
	return &Pass{m: m, format: newFormat(format, ""), last: last, Options: Options{Progress: func(_, _ eventstore.Position) {}}}
}

func toFile(t *testing.T, x *Pass, name string) (Done, error) {
	t.Helper()
	x.Output = name
	return x.ToFile(t.Context())
}

func exported(t *testing.T, x *Pass, name string) string {
	t.Helper()
	if _, err := toFile(t, x, name); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func formats() []string { return []string{"jsonl", "csv", "hledger"} }

// TestExportOfAProject has the events of one project, or of all.
func TestExportOfAProject(t *testing.T) {
	t.Parallel()
	records, m := books(t)
	for _, format := range formats() {
		for _, project := range []string{"", "prj_1"} {
			x := exportOf(m, format, eventstore.Position(len(records)))
			x.Project = project
			whole := exported(t, x, filepath.Join(t.TempDir(), "whole"))
			if !strings.Contains(whole, "prj_1") || strings.Contains(whole, "prj_0") != (project == "") {
				t.Errorf("%s of %q:\n%s", format, project, whole)
			}
		}
	}
}

// TestExportNoticesABrokenStream lets the server's answer end early: nothing is left of the
// export.
func TestExportNoticesABrokenStream(t *testing.T) {
	t.Parallel()
	records, _ := books(t)
	last := eventstore.Position(len(records))
	var jsonl []byte
	for _, r := range records {
		jsonl, _ = jsonlFormat{}.render(jsonl, r)
	}
	for _, format := range formats() {
		dir := t.TempDir()
		name := filepath.Join(dir, "broken")
		for _, cut := range []int{1, 600, len(jsonl) / 2, bytes.LastIndexByte(jsonl[:len(jsonl)/2], '\n') + 1} {
			_, err := toFile(t, exportOf(serveRecords(records, cut), format, last), name)
			if err == nil {
				t.Fatalf("%s: the stream broke off behind byte %d and nobody noticed", format, cut)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Fatalf("%s: a broken export left %v, %v", format, left, err)
			}
		}
	}
	// A record that is left out is noticed too.
	gap := slices.Delete(slices.Clone(records), 3, 4)
	if _, err := toFile(t, exportOf(serveRecords(gap, 0), "jsonl", last), filepath.Join(t.TempDir(), "x")); err == nil {
		t.Error("a gap went unnoticed")
	}
}

func TestCSVIsHarmless(t *testing.T) {
	t.Parallel()
	records, m := books(t)
	whole := exported(t, exportOf(m, "csv", eventstore.Position(len(records))), filepath.Join(t.TempDir(), "j.csv"))
	if n := strings.Count(whole, "\n"); n != strings.Count(whole, "\r\n") || n != 1+6*4*2 {
		t.Errorf("%d lines", n)
	}
	rows, err := csv.NewReader(strings.NewReader(whole)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]domain.Sum{}
	for i, row := range rows {
		for _, cell := range row {
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				t.Errorf("row %d: %q", i, cell)
			}
		}
		if i == 0 {
			continue
		}
		var sum domain.Sum
		if err := sum.UnmarshalText([]byte(row[9] + row[10])); err != nil || (row[9] == "") == (row[10] == "") {
			t.Fatalf("row %d: debit %q, credit %q", i, row[9], row[10])
		}
		if row[9] == "" {
			sum = sum.Neg()
		}
		sums[row[8]] = sums[row[8]].Add(sum)
	}
	for currency, sum := range sums {
		if sum != (domain.Sum{}) {
			t.Errorf("%s: %s left over", currency, sum)
		}
	}
}

// TestHledgerAgrees lets hledger check a journal with hostile texts in it and
// compares its balances with the postings.
func TestHledgerAgrees(t *testing.T) {
	t.Parallel()
	records, m := books(t)
	journal := filepath.Join(t.TempDir(), "j.hledger")
	exported(t, exportOf(m, "hledger", eventstore.Position(len(records))), journal)
	exporttest.Hledger(t, journal, "check", "--strict")
	sums := map[string]domain.Sum{}
	codec := eventstore.NewCodec()
	for _, r := range records {
		event, err := codec.Decode(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range domain.Postings(event) {
			account, _ := hledgerAccount(p.Account, r.Stream.Project)
			name := account + " " + strings.Trim(hledgerCommodity(p.Currency), `"`)
			sums[name] = sums[name].Add(p.Amount)
		}
	}
	var want []string
	for name, sum := range sums {
		account, commodity, _ := strings.Cut(name, " ")
		want = append(want, account+" "+sum.String()+" "+commodity)
	}
	slices.Sort(want)
	if got := exporttest.HledgerBalances(t, journal); !exporttest.EqualUnlessZero(got, want) {
		t.Errorf("hledger:\n%s\nours:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// Negative control: hledger does refuse what is wrong.
	b, err := os.ReadFile(journal)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(t.TempDir(), "bad.hledger")
	for from, to := range map[string]string{"  10.50 RUB": "  10.51 RUB", "account liabilities:suspense:prj_0": "account liabilities:other:prj_0"} {
		if err := os.WriteFile(bad, bytes.Replace(b, []byte(from), []byte(to), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := exec.CommandContext(t.Context(), "hledger", "check", "--strict", "-f", bad).Run(); err == nil {
			t.Errorf("hledger took %q", to)
		}
	}
}
