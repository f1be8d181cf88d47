package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"payledger/cmd/payledger/export/exporttest"
)

// balances are the books that "payledger balance --json" prints, under the
// names hledger has for the accounts.
func balances(t *testing.T, data string, args ...string) (all []string, position uint64) {
	t.Helper()
	out, code := payledger(t, append([]string{"balance", "--json", "--data", data}, args...)...)
	var books struct {
		Position uint64
		Projects []struct {
			ProjectID string `json:"project_id"`
			Balances  []struct {
				Currency, Total string
				Accounts        []struct{ Account, Balance string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &books); err != nil || code != 0 {
		t.Fatalf("%d %s: %v", code, out, err)
	}
	for _, p := range books.Projects {
		for _, c := range p.Balances {
			if c.Total != "0.00" {
				t.Errorf("%s of %s add up to %s", c.Currency, p.ProjectID, c.Total)
			}
			for _, b := range c.Accounts {
				side := "liabilities:"
				switch head, _, _ := strings.Cut(b.Account, ":"); head {
				case "acquirer_receivable", "settlement_transit", "bank":
					side = "assets:"
				case "provider_fees", "losses":
					side = "expenses:"
				}
				all = append(all, side+b.Account+":"+p.ProjectID+" "+b.Balance+" "+c.Currency)
			}
		}
	}
	slices.Sort(all)
	return all, books.Position
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func done(t *testing.T, args ...string) string {
	t.Helper()
	out, code := payledger(t, args...)
	if code != 0 {
		t.Fatalf("payledger %s: %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// TestBooksEndToEnd pays, refunds, pays too late and pays out, and reads the books over HTTP,
// on the command line and through hledger.
func TestBooksEndToEnd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := start(t, "demo", "--data="+data)
	first := s.paid(t)
	_, paidAt := balances(t, data)
	s.paid(t)
	refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, first)).text(t, "id")
	_, pendingAt := balances(t, data)
	s.do(t, 200, "POST", "/v1/sandbox/refunds/"+refund, `{"outcome":"succeeded"}`)
	late := s.do(t, 201, "POST", "/v1/payments", `{"amount":"10"}`).text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/payments/"+late, `{"outcome":"failed"}`)
	s.do(t, 409, "POST", "/v1/sandbox/payments/"+late, `{"outcome":"paid"}`)

	account := func(name, amount string) string {
		side := "liabilities:"
		if strings.HasPrefix(name, "acquirer_receivable:") {
			side = "assets:"
		}
		return side + name + ":" + s.ProjectID + " " + amount + " RUB"
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--as-of", "0"}, nil},
		{[]string{"--as-of", fmt.Sprint(paidAt)}, []string{account("acquirer_receivable:sandbox", "1500.00"), account("merchant_payable", "-1500.00")}},
		{[]string{"--as-of", fmt.Sprint(pendingAt)}, []string{
			account("acquirer_receivable:sandbox", "3000.00"), account("merchant_payable", "-1500.00"), account("refunds_in_flight", "-1500.00"),
		}},
		{[]string{"--as-of", "2000-01-01T00:00:00Z"}, nil},
		{nil, []string{
			account("acquirer_receivable:sandbox", "1510.00"), account("merchant_payable", "-1500.00"),
			account("refunds_in_flight", "0.00"), account("suspense", "-10.00"),
		}},
	} {
		if got, _ := balances(t, data, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%v: %q, want %q", c.args, got, c.want)
		}
	}
	over := s.do(t, 200, "GET", "/v1/balance", "")
	if !bytes.Contains(over.Body, []byte(`{"account":"suspense","balance":"-10.00"}`)) {
		t.Errorf("%s", over.Body)
	}
	statement := s.do(t, 200, "GET", "/v1/balance/statement?account=merchant_payable", "")
	var lines struct {
		Data []struct{ Amount, Balance string }
	}
	if err := json.Unmarshal(statement.Body, &lines); err != nil || len(lines.Data) != 3 || lines.Data[2].Balance != "-1500.00" || lines.Data[2].Amount != "1500.00" {
		t.Errorf("%s", statement.Body)
	}
	if got := done(t, "balance", "--late-funds", "--data", data); !strings.Contains(got, late) || !strings.Contains(got, "after_failed") {
		t.Errorf("late funds: %s", got)
	}

	done(t, "payout", "arrived", "--route", "sandbox", "--report", "r-1", "--amount", "700", "--reference", "bank-1", "--data", data)
	done(t, "payout", "merchant", "--amount", "600", "--reference", "bank; 2", "--data", data)

	_, id, _ := strings.Cut(done(t, "payout", "list", "--json", "--data", data), `"id":"`)
	done(t, "payout", "undo", id[:26], "--reason", "it; was another", "--data", data)

	journal := filepath.Join(dir, "j.hledger")
	done(t, "export", "--format", "hledger", "-o", journal, "--data", data)
	exporttest.Hledger(t, journal, "check", "--strict")
	ours, _ := balances(t, data)
	if got := exporttest.HledgerBalances(t, journal); !exporttest.EqualUnlessZero(got, ours) {
		t.Errorf("hledger %q, ours %q", got, ours)
	}
}

// TestInterruptedExport kills exports of a running server: nothing has their name
// until all of it is written, and the next export clears away what was left.
func TestInterruptedExport(t *testing.T) {
	t.Parallel()
	data, dir := filepath.Join(t.TempDir(), "data"), t.TempDir()
	s := start(t, "demo", "--data="+data)
	payload := `,"payload":{"x":"` + strings.Repeat("x", 450) + `"}`
	inParallel(t, 400, 64, func(int) (answer, error) { return s.send("POST", "/v1/payments", `{"amount":"1"`+payload+`}`) })
	eventually(t, "every payment has its route", func() bool {
		return !strings.Contains(string(s.do(t, 200, "GET", "/v1/payments?status=created", "").Body), `"id"`)
	})
	for _, format := range []string{"jsonl", "csv", "hledger", "bundle"} {
		whole := filepath.Join(dir, format+".tar") // the name that a bundle has to have
		cmd := exec.CommandContext(t.Context(), "payledger", "export", "--format", format, "-o", whole, "--data", data)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the export has begun", func() bool {
			begun, err := os.ReadDir(dir)
			return err == nil && len(begun) > 0
		})
		_ = cmd.Process.Kill() // it may just have ended
		_ = cmd.Wait()
		if _, err := os.Lstat(whole); err == nil {
			t.Logf("%s: it ended before it was killed", format)
			if err := os.RemoveAll(whole); err != nil {
				t.Fatal(err)
			}
		}
		done(t, "export", "--format", format, "-o", whole, "--data", data)
		if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != filepath.Base(whole) {
			t.Errorf("%s: left %v, %v", format, left, err)
		}
		if format == "jsonl" && readFile(t, whole) != done(t, "events", "tail", "--json", "--data", data) {
			t.Error("the export is not what events tail prints")
		}
		if err := os.RemoveAll(whole); err != nil {
			t.Fatal(err)
		}
	}
}

// TestExportOfALiveServerEndsSomewhere exports while payments are made: each file is
// a prefix of the log without a gap.
func TestExportOfALiveServerEndsSomewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	s := start(t, "demo", "--data="+data)
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				s.send("POST", "/v1/payments", `{"amount":"1"}`) //nolint:errcheck // the log says what came
			}
		}
	}()
	var exports []string
	for i := range 5 {
		name := filepath.Join(dir, fmt.Sprint(i))
		done(t, "export", "-o", name, "--data", data)
		exports = append(exports, readFile(t, name))
	}
	close(stop)
	<-ended
	whole := done(t, "export", "--data", data)
	for i, e := range exports {
		if !strings.HasPrefix(whole, e) || !strings.HasSuffix(e, "}\n") {
			t.Errorf("export %d is no beginning of the log", i)
		}
	}
}
