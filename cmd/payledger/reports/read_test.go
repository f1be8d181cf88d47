package reports_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"

	"payledger/cmd/payledger/reports"
	"payledger/domain/settlement"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func load(t testing.TB, name string) reports.Profile {
	t.Helper()
	p, err := reports.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// all reads a report to its end or fault.
func all(p reports.Profile, r io.Reader) (lines []settlement.Line, fault *reports.Fault) {
	for line, err := range p.Read(r, now) {
		if err != nil {
			fault, _ = errors.AsType[*reports.Fault](err)
			continue // what comes after it would be seen
		}
		if fault != nil {
			panic("a line behind a fault")
		}
		lines = append(lines, line)
	}
	return lines, fault
}

// TestProfiles reads reports with invented data, written by the formats' public documentation.
func TestProfiles(t *testing.T) {
	t.Parallel()
	for file, profile := range map[string]string{
		"csv":                    "csv",
		"stripe":                 "stripe-payout-reconciliation",
		"yookassa-payments":      "yookassa-registry",
		"yookassa-refunds":       "yookassa-registry",
		"yookassa-payments-1251": "yookassa-registry-1251",
	} {
		content, err := os.ReadFile(filepath.Join("testdata", file+".csv"))
		if err != nil {
			t.Fatal(err)
		}
		lines, fault := all(load(t, profile), bytes.NewReader(content))
		if fault != nil {
			t.Errorf("%s: %v", file, fault)
		}
		var got bytes.Buffer
		for _, l := range lines {
			if l.Check() != "" {
				t.Errorf("%s: line %d: %s", file, l.Number, l.Check())
			}
			b, err := json.Marshal(l, json.Deterministic(true))
			if err != nil {
				t.Fatal(err)
			}
			got.Write(append(b, '\n'))
		}
		golden := filepath.Join("testdata", strings.TrimSuffix(file, "-1251")+".golden")
		if *update {
			if err := os.WriteFile(golden, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// TestBadReports: each fault says where it is, and nothing comes after it.
func TestBadReports(t *testing.T) {
	t.Parallel()
	const (
		header   = "kind,reference,gross,fee,net,currency,settled_on\n"
		good     = "payment,a,10.00,1.00,9.00,RUB,2026-11-02\n"
		registry = "Реестр\nИдентификатор платежа;Сумма платежа;Валюта платежа;Сумма за вычетом комиссии;Время платежа\n"
		paid     = "a;10,00;RUB;9,00;02.11.2026\n"
	)
	for _, test := range []struct {
		name, profile, report, fault string
		lines                        int // before the fault
	}{
		{"as it should be", "csv", header + good, "", 1},
		{"a byte order mark", "csv", "\ufeff" + header + good, "", 1},
		{"no line end at the end", "csv", header + strings.TrimSuffix(good, "\n"), "", 1},
		{"line ends of Windows", "csv", strings.ReplaceAll(header+good+good+"\n,,,,,,\n", "\n", "\r\n"), "line 3: the same as line 2", 1},
		{"blank rows", "csv", header + good + "\n,,,,,,\n \n", "", 1},
		{"no lines", "csv", header, "", 0},
		{"another order of columns", "csv", "settled_on,net,note,fee,gross,currency,kind,reference\n2026-11-02,9,,1,10,RUB,payment,a\n", "", 1},
		{"a thousand apart, where the profile has it", "yookassa-registry", registry + "a;1 234,50;RUB;1\u00a0234,00;02.11.2026\n\nСумма принятых платежей: 1 234,50 RUB\n", "", 1},

		{"nothing", "csv", "", "line 1: no header: the file is empty", 0},
		{"no header", "csv", good, `line 1: no header: the columns ["currency" "fee" "gross" "kind" "net" "reference" "settled_on"] are missing, and there are 7 others: is the delimiter ","?`, 0},
		{"another delimiter", "csv", strings.ReplaceAll(header+good, ",", ";"), `line 1: no header: the columns ["currency" "fee" "gross" "kind" "net" "reference" "settled_on"] are missing, and there are 1 others: is the delimiter ","?`, 0},
		{"a column twice", "csv", "gross," + header + good, `line 1: no header: the columns ["gross"] are missing, and there are 8 others: is the delimiter ","?`, 0},
		{"no column of our id", "stripe-payout-reconciliation", "reporting_category,source_id,gross,fee,net,currency,automatic_payout_effective_at\n", `line 1: no header: the columns ["payment_metadata[payledger_payment]"] are missing, and there are 7 others: is the delimiter ","?`, 0},
		{"a header too far below", "yookassa-registry", strings.Repeat("Реестр\n", 6) + registry, `line 6: no header: the columns ["Валюта возврата" "Время возврата" "Идентификатор возврата" "Сумма возврата"] are missing, and there are 1 others: is the delimiter ";"?`, 0},

		{"truncated in quotation marks", "csv", header + good + "payment,\"b", "line 3, column 2 (reference): a quotation mark is left open, or stands inside a text: the file is truncated, or is no CSV", 1},
		{"truncated in quotation marks, lines below", "csv", header + good + "payment,\"b\n" + good, "line 3, column 2 (reference): a quotation mark is left open, or stands inside a text: the file is truncated, or is no CSV", 1},
		{"truncated in a line", "csv", header + good + "payment,b,10", `line 3: 3 cells, and the header has 7: the file is truncated, or the delimiter is another than ","`, 1},
		{"more cells", "csv", header + "payment,a,1,234.50,1.00,1233.50,RUB,2026-11-02\n", `line 2: 8 cells, and the header has 7: the file is truncated, or the delimiter is another than ","`, 0},
		{"a quotation mark inside", "csv", header + "payment,a\"b,10.00,1.00,9.00,RUB,2026-11-02\n", "line 2, column 2 (reference): a quotation mark is left open, or stands inside a text: the file is truncated, or is no CSV", 0},
		{"truncated before the total", "yookassa-registry", registry + paid, `line 3: behind this line the total "Сумма принятых платежей:" is missing: the file is truncated, or the profile is another's`, 1},
		{"a total that does not fit", "yookassa-registry", registry + paid + "\nСумма принятых платежей: 11.00 RUB\n", "line 5, column 1 (Идентификатор платежа): the total says 11.00, and the lines add up to 10.00", 1},
		{"a total in another currency", "yookassa-registry", registry + paid + "\nСумма принятых платежей: 10.00 EUR\n", "line 5, column 1 (Идентификатор платежа): the total says 10.00, and the lines add up to 0.00", 1},
		{"a number that does not fit", "yookassa-registry", registry + paid + "\nЧисло платежей: 2\n", `line 5, column 1 (Идентификатор платежа): the total says "2" lines, and there are 1`, 1},
		{"a number with a thousand apart", "yookassa-registry", registry + strings.Repeat(strings.TrimPrefix(paid, "a"), 1200) + "\nЧисло платежей: 1\u00a0200\n\nСумма принятых платежей: 12 000,00 RUB\n", "", 1200},
		{"a line behind the total", "yookassa-registry", registry + paid + "\nСумма принятых платежей: 10.00\n" + paid, "line 6: a line behind the total", 1},
		{"one total of two currencies", "yookassa-registry", registry + paid + "b;10,00;EUR;9,00;02.11.2026\n\nСумма принятых платежей: 10.00\n", "line 6, column 1 (Идентификатор платежа): the total has no currency, and the lines have several", 2},

		{"of next year", "csv", header + "payment,a,10.00,1.00,9.00,RUB,2027-11-02\n", `line 2, column 7 (settled_on): "2027-11-02" is before 2000 or more than 31 days ahead`, 0},
		{"of last century", "csv", header + "payment,a,10.00,1.00,9.00,RUB,1926-11-02\n", `line 2, column 7 (settled_on): "1926-11-02" is before 2000 or more than 31 days ahead`, 0},
		{"no date", "csv", header + "payment,a,10.00,1.00,9.00,RUB,2026-02-30\n", `line 2, column 7 (settled_on): "2026-02-30" is no date as YYYY-MM-DD`, 0},
		{"twice", "csv", header + good + "fee,,0.00,1.00,-1.00,RUB,2026-11-02\nfee,,0.00,1.00,-1.00,RUB,2026-11-02\n" + good, "line 5: the same as line 2", 3},
		{"a thousand apart", "csv", header + "payment,a,\"1 234,50\",0.00,1234.50,RUB,2026-11-02\n", `line 2, column 3 (gross): "1 234,50" is no amount as the profile writes them, such as 1234.50`, 0},
		{"groups of no three", "yookassa-registry", registry + "a;12 34,50;RUB;9,00;02.11.2026\n", `line 3, column 2 (Сумма платежа): "12 34,50" is no amount as the profile writes them, such as 1234,50`, 0},
		{"no digits", "csv", header + "payment,a,ten,1.00,9.00,RUB,2026-11-02\n", `line 2, column 3 (gross): "ten" is no amount as the profile writes them, such as 1234.50`, 0},
		{"an exponent", "csv", header + "payment,a,1e1,1.00,9.00,RUB,2026-11-02\n", `line 2, column 3 (gross): "1e1" is no amount as the profile writes them, such as 1234.50`, 0},
		{"a zero before", "csv", header + "payment,a,010.00,1.00,9.00,RUB,2026-11-02\n", `line 2, column 3 (gross): "010.00" is no amount: it begins with a zero`, 0},
		{"more digits", "csv", header + "payment,a,10.000,1.00,9.00,RUB,2026-11-02\n", `line 2, column 3 (gross): "10.000" has more digits than its currency`, 0},
		{"too large", "csv", header + "payment,a,1000000000000000.00,1.00,9.00,RUB,2026-11-02\n", `line 2, column 3 (gross): "1000000000000000.00" is too large`, 0},
		{"too large to record", "csv", header + "payment,a,999999999999999.00,0.00,999999999999999.00,RUB,2026-11-02\n", `line 2, column 3 (gross): cannot be recorded: it is too large, or has characters that are not printable`, 0},
		{"a negative payment", "csv", header + "payment,a,-10.00,1.00,-11.00,RUB,2026-11-02\n", "line 2, column 3 (gross): -10.00 for a payment, which is above zero", 0},
		{"a positive refund", "csv", header + "refund,a,10.00,1.00,9.00,RUB,2026-11-02\n", "line 2, column 3 (gross): 10.00 for a refund, which is below zero", 0},
		{"a refund that comes back, negative", "csv", header + "refund_returned,a,-10.00,1.00,-11.00,RUB,2026-11-02\n", "line 2, column 3 (gross): -10.00 for a refund of a kind in reversals, whose sign in the report is the other than that of refunds", 0},
		{"a payment of zero", "csv", header + "payment,a,0.00,1.00,-1.00,RUB,2026-11-02\n", "line 2, column 3 (gross): 0.00 for a payment, which is above zero", 0},
		{"zero", "csv", header + "other,a,0.00,,0.00,RUB,2026-11-02\n", "line 2, column 3 (gross): the line moves no money", 0},
		{"net is not the rest", "csv", header + "payment,a,10.00,1.00,9.01,RUB,2026-11-02\n", "line 2, column 5 (net): gross 10.00 less fee 1.00 is 9.00, and not 9.01", 0},
		{"an unknown kind", "csv", header + "gift,a,10.00,1.00,9.00,RUB,2026-11-02\n", `line 2, column 1 (kind): "gift" is no kind that the profile knows`, 0},
		{"an unknown currency", "csv", header + "payment,a,10.00,1.00,9.00,RUR,2026-11-02\n", `line 2, column 6 (currency): "RUR" is no currency whose amounts have two digits behind the point`, 0},
		{"a currency without digits", "csv", header + "payment,a,10.00,1.00,9.00,JPY,2026-11-02\n", `line 2, column 6 (currency): "JPY" is no currency whose amounts have two digits behind the point`, 0},
		{"an id that is not ours", "csv", "payment_id," + header + "01m7w78fjbm8t4r7b5n0c1d2e3," + good, `line 2, column 1 (payment_id): "01m7w78fjbm8t4r7b5n0c1d2e3" is no id of ours: want 26 capital letters and digits`, 0},
		{"a control character", "csv", header + "payment,a\x00b,10.00,1.00,9.00,RUB,2026-11-02\n", "line 2, column 2 (reference): a control character", 0},
		{"a blank that does not show", "csv", header + "payment,a\u00a0b,10.00,1.00,9.00,RUB,2026-11-02\n", "line 2, column 2 (reference): cannot be recorded: it is too large, or has characters that are not printable", 0},
		{"a long reference", "csv", header + "payment," + strings.Repeat("a", 129) + ",10.00,1.00,9.00,RUB,2026-11-02\n", "line 2, column 2 (reference): longer than 128 bytes", 0},
		{"not UTF-8", "csv", header + good + "payment,\xc0,10.00,1.00,9.00,RUB,2026-11-02\n", "line 3, column 2 (reference): bytes that are not utf-8", 1},
		{"not UTF-8 in the header", "yookassa-registry", "\xd0\xe5\xe5\xf1\xf2\xf0\n", "line 1: no header: it has bytes that are not utf-8", 0},
		{"not UTF-8, and a line that is no row", "yookassa-registry", "\xd0\n" + registry + "a;\"b;c\"d\n", "line 1: no header: it has bytes that are not utf-8", 0},
		{"UTF-8 without a mark", "yookassa-registry-1251", registry + paid + "a;\"b;c\"d\n", "line 2: no header: it has bytes that are not windows-1251", 0},
		{"not windows-1251", "yookassa-registry-1251", "\x98\n", "line 1: no header: it has bytes that are not windows-1251", 0},
		{"UTF-8 by its mark", "yookassa-registry-1251", "\ufeff" + registry + paid, "line 1: the file is UTF-8 by its byte order mark, and windows-1251 in the profile", 0},
		{"a long line", "csv", header + good + strings.Repeat("0", 80<<10), "line 3: longer than 65536 bytes: is the delimiter another, or a quotation mark left open?", 1},
	} {
		lines, fault := all(load(t, test.profile), strings.NewReader(test.report))
		got := ""
		if fault != nil {
			got = fault.Error()
		}
		if got != test.fault || len(lines) != test.lines {
			t.Errorf("%s: %d lines and the fault\n%s\nwant %d lines and\n%s", test.name, len(lines), got, test.lines, test.fault)
		}
	}
}

// Where separators stand elsewhere than between groups of digits, the amount may be another: ".25" is not 25.00.
func TestMisplacedSeparators(t *testing.T) {
	t.Parallel()
	profile := load(t, "csv")
	profile.Delimiter, profile.DecimalMarks, profile.ThousandsSeparators = ";", ",", ". "
	for cell, gross := range map[string]string{
		".25": "", "7.": "", "1..250,00": "", "1. 250,00": "", "1.250.,00": "", ".250,00": "", ".": "",
		"1.250,00": "1250.00", "1 250,00": "1250.00", "1.250.000": "1250000.00", "+ 250,00": "250.00", "7,5": "7.50", "7": "7.00",
	} {
		lines, fault := all(profile, strings.NewReader("kind;reference;gross;fee;net;currency;settled_on\npayment;a;"+cell+";0;"+cell+";RUB;2026-11-02\n"))
		switch {
		case gross == "" && (fault == nil || fault.Problem != fmt.Sprintf("%q is no amount as the profile writes them, such as 1234,50", cell)):
			t.Errorf("%q: %+v, %v", cell, lines, fault)
		case gross != "" && (fault != nil || lines[0].Gross.String() != gross):
			t.Errorf("%q: %+v, %v", cell, lines, fault)
		}
	}
}

// A reversal has the other sign in the report, whichever sign its kind has there; the amount in the error is the report's.
func TestSignsOfReversals(t *testing.T) {
	t.Parallel()
	profile := load(t, "csv")
	profile.Unsigned = []settlement.Kind{settlement.KindRefund}
	read := func(kind, gross string) string {
		_, fault := all(profile, strings.NewReader("kind,reference,gross,fee,net,currency,settled_on\n"+kind+",a,"+gross+",0.00,"+gross+",RUB,2026-11-02\n"))
		if fault == nil {
			return ""
		}
		return fault.Error()
	}
	if got := read("refund", "250.00") + read("refund_returned", "-250.00"); got != "" {
		t.Error(got)
	}
	const want = "line 2, column 3 (gross): 250.00 for a refund of a kind in reversals, whose sign in the report is the other than that of refunds"
	if got := read("refund_returned", "250.00"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// endless reads as one text again and again, and counts what was read.
type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = e.text[(e.read+n)%len(e.text)]
	}
	e.read += len(p)
	return len(p), nil
}

// TestEndlessReports: a file of gigabytes of the same byte, and one in which a quotation mark is
// never closed, end within the length of a line.
func TestEndlessReports(t *testing.T) {
	t.Parallel()
	const header = "kind,reference,gross,fee,net,currency,settled_on\n"
	for _, text := range []string{"0", "\x00", "\n\"", "\"\n"} {
		for _, begin := range []string{"", header} {
			for _, name := range reports.Known() {
				in := &endless{text: text}
				if _, fault := all(load(t, name), io.MultiReader(strings.NewReader(begin), in)); fault == nil {
					t.Errorf("%s takes %q without end", name, text)
				}
				if in.read > 256<<10 {
					t.Errorf("%s reads %d bytes of %q", name, in.read, text)
				}
			}
		}
	}
}

// TestMemory reads many lines. A repetition is found only so far back, which the
// settlement of the payment makes up for.
func TestMemory(t *testing.T) {
	t.Parallel()
	in, out := io.Pipe()
	const lines = 270_000
	go func() {
		w := &bytes.Buffer{}
		w.WriteString("kind,reference,gross,fee,net,currency,settled_on\n")
		for i := range lines {
			fmt.Fprintf(w, "payment,ref-%d,10.00,1.00,9.00,RUB,2026-11-02\n", i)
			if w.Len() > 32<<10 || i == lines-1 {
				_, _ = out.Write(w.Bytes())
				w.Reset()
			}
		}
		_, _ = out.Write([]byte("payment,ref-0,10.00,1.00,9.00,RUB,2026-11-02\npayment,ref-269999,10.00,1.00,9.00,RUB,2026-11-02\n"))
		_ = out.Close()
	}()
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	n, before := 0, heap()
	for _, err := range load(t, "csv").Read(in, now) {
		if err != nil {
			if n != lines+1 || err.Error() != "line 270003: the same as line 270001" {
				t.Errorf("after %d lines: %v", n, err)
			}
			return
		}
		if n++; n == lines {
			if now := heap(); now > before+48<<20 {
				t.Errorf("the heap grew from %d to %d bytes", before, now)
			}
		}
	}
	t.Error("a line twice was not found")
}

// TestReaderFails: the reader's own error can be recognized.
func TestReaderFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("the disk is away")
	for _, begin := range []string{"", "kind,reference,gross,fee,net,currency,settled_on\n"} {
		in := io.MultiReader(strings.NewReader(begin), iotestErr{failed})
		if _, fault := all(load(t, "csv"), in); !errors.Is(fault, failed) {
			t.Errorf("%v", fault)
		}
	}
}

type iotestErr struct{ error }

func (e iotestErr) Read([]byte) (int, error) { return 0, e.error }

// FuzzRead: no report breaks the reader, and what is read of any can be recorded.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"csv", "stripe", "yookassa-payments", "yookassa-payments-1251", "yookassa-refunds"} {
		content, err := os.ReadFile(filepath.Join("testdata", name+".csv"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content)
	}
	f.Add([]byte("kind,reference,gross,fee,net,currency,settled_on\npayment,\"a\nb\",1,,1,RUB,2026-11-02\n"))
	var profiles []reports.Profile
	for _, name := range reports.Known() {
		profiles = append(profiles, load(f, name))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, p := range profiles {
			lines, fault := all(p, bytes.NewReader(content))
			for _, l := range lines {
				if l.Check() != "" {
					t.Errorf("%s of %+v", l.Check(), l)
				}
			}
			if fault != nil && (fault.Line < 1 || fault.Line > bytes.Count(content, []byte("\n"))+1 || fault.Problem == "") {
				t.Errorf("%+v", fault)
			}
		}
	})
}
