package httpapi

import (
	"encoding/csv"
	"strconv"
	"strings"
	"testing"
	"time"

	"payledger/domain"
	"payledger/httpapi/merchant"
)

// csv requests a list as CSV and returns its rows without the header.
func (m shop) csv(target string) (columns string, rows [][]string) {
	m.s.t.Helper()
	a := m.send("GET", target, nil, header{"Accept", "text/csv"}).want(200, "")
	if a.Header.Get("Vary") != "Accept" || a.Header.Get("Content-Type") != "text/csv; charset=utf-8; header=present" {
		m.s.t.Errorf("%v", a.Header)
	}
	if n := strings.Count(string(a.Body), "\n"); n != strings.Count(string(a.Body), "\r\n") {
		m.s.t.Errorf("line ends: %q", a.Body)
	}
	all, err := csv.NewReader(strings.NewReader(string(a.Body))).ReadAll()
	if err != nil || len(all) == 0 {
		m.s.t.Fatalf("%v in %q", err, a.Body)
	}
	return strings.Join(all[0], ","), all[1:]
}

func TestListsAsCSV(t *testing.T) {
	t.Parallel()
	s := start(t)
	m, other := s.merchant(""), s.merchant("")
	other.paid()
	evil := m.pay(`{"amount":"10.00","description":"=HYPERLINK(\"http://x\")","payload":{"a":"b,\"c"}}`).want(201, "").object().ID
	s.clock.advance(time.Second)
	p := m.pay(`{"amount":"1500.00","description":"+tea"}`).want(201, "").object().ID
	m.route(p)
	m.post("/v1/sandbox/payments/"+p, `{"outcome":"paid"}`).want(200, "")
	r := m.refund(p).want(201, "").object().ID

	columns, rows := m.csv("/v1/payments")
	if columns != "id,status,amount,currency,description,payload,created_at,refund_status,dispute_status" || len(rows) != 2 {
		t.Fatalf("%s %q", columns, rows)
	}
	if got := strings.Join(rows[1][:6], "|"); got != evil+`|created|10.00|RUB|'=HYPERLINK("http://x")|{"a":"b,\"c"}` {
		t.Errorf("%s", got)
	}
	if _, rows = m.csv("/v1/payments?status=paid"); len(rows) != 1 || rows[0][0] != p {
		t.Errorf("%q", rows)
	}
	if _, rows = m.csv("/v1/payments?limit=1"); len(rows) != 1 || rows[0][0] != p {
		t.Errorf("%q", rows)
	}
	if _, rows = m.csv("/v1/payments?cursor=" + *m.list("/v1/payments?limit=1").NextCursor); len(rows) != 1 || rows[0][0] != evil {
		t.Errorf("%q", rows)
	}
	columns, rows = m.csv("/v1/refunds")
	if columns != "id,payment_id,status,amount,currency,created_at,returned" || len(rows) != 1 || rows[0][0] != r || rows[0][1] != p || rows[0][2] != "pending" {
		t.Errorf("%s %q", columns, rows)
	}
	if _, rows = m.csv("/v1/refunds?payment_id=none"); len(rows) != 0 {
		t.Errorf("%q", rows)
	}
	_, rows = m.csv("/v1/balance/statement?account=merchant_payable")
	var got []string
	for _, row := range rows {
		got = append(got, strings.Join(append([]string{row[3], row[5]}, row[6:]...), "|"))
	}
	want := []string{"payment.paid||merchant_payable|RUB||1500.00|1500.00|credit|'+tea|", "refund.created|" + r + "|merchant_payable|RUB|1500.00||0.00||'+tea|"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
	m.send("GET", "/v1/payments?status=x", nil, header{"Accept", "text/csv"}).want(400, domain.InvalidParameter)
	for accept, csv := range map[string]bool{
		"text/csv;q=0, */*": false, "text/csv; q=0.000": false, "*/*, Text/CSV;q=0.1": true, "text/csv;q=x": true, "text/csv, */*": true,
		"application/json, text/csv;q=0.1": false, "text/csv, application/json": false, "text/csv, application/json;q=0.9": true,
	} {
		a := m.send("GET", "/v1/payments", nil, header{"Accept", accept}).want(200, "")
		if got := strings.HasPrefix(a.Header.Get("Content-Type"), "text/csv"); got != csv {
			t.Errorf("Accept: %s answers %s", accept, a.Header.Get("Content-Type"))
		}
	}
	if a := m.send("HEAD", "/v1/payments", nil, header{"Accept", "text/csv"}); a.Code != 200 || len(a.Body) != 0 {
		t.Errorf("HEAD: %d %s", a.Code, a.Body)
	}
}

// TestLongListsAsCSV has more rows than one query of the views returns.
func TestLongListsAsCSV(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	const n = 1100
	api, err := merchant.New(s.cfg.Config.Config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := api.Resume(t.Context(), merchant.Session{Project: m.project, KeyID: m.keyID, Since: 1})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		amount, description := "1", strconv.Itoa(i)
		if _, err := api.CreatePayment(t.Context(), c, merchant.PaymentRequest{Amount: &amount, Description: &description}, nil); err != nil {
			t.Fatal(err)
		}
	}
	_, rows := m.csv("/v1/payments")
	if len(rows) != n {
		t.Fatalf("%d rows, want %d", len(rows), n)
	}
	seen := map[string]bool{}
	for i, row := range rows {
		if seen[row[4]] || i > 0 && row[0] >= rows[i-1][0] {
			t.Fatalf("row %d comes twice or out of order: %q", i, row)
		}
		seen[row[4]] = true
	}
}
