package httpapi

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// TestPayoutsAtTheSameTime: all that is owed is paid out once, however many ask at the same time.
func TestPayoutsAtTheSameTime(t *testing.T) {
	t.Parallel()
	s := start(t)
	m := s.merchant("")
	m.paid()
	var mu sync.Mutex
	got := make(map[int]int)
	var wait sync.WaitGroup
	for n := range 8 {
		wait.Go(func() {
			a := s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", fmt.Sprintf(`{"amount":"900.00","currency":"RUB","reference":"pp-%d"}`, n))
			mu.Lock()
			defer mu.Unlock()
			got[a.Code]++
		})
	}
	wait.Wait()
	if got[201] != 1 || got[400] != 7 {
		t.Errorf("%v", got)
	}
}

// TestPayoutsOfTheMerchant: list, pages, CSV and the account.
func TestPayoutsOfTheMerchant(t *testing.T) {
	t.Parallel()
	s := start(t, withAccount(t))
	m, other := s.merchant(""), s.merchant("")
	b := s.browser().signIn(m)
	m.paid()
	b.open("/account/balance?lang=en").want(200).lacks("Paid out to you")
	for n, reference := range []string{"pp-1", "=pp-2", "pp-3"} {
		s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", fmt.Sprintf(`{"amount":"%d.00","reference":%q}`, n+1, reference)).want(201, "")
	}
	s.adminDo("POST", "/admin/payouts", `{"route":"sandbox","report":"r","amount":"7","reference":"bank-1"}`).want(201, "")
	s.adminDo("POST", "/admin/payouts", `{"amount":"7","reference":"bank-1"}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts", `{"amount":7.001}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/projects/"+m.project+"/payouts", `{"route":"sandbox","report":"r","amount":"7","reference":"pp-4"}`).want(400, domain.InvalidParameter)
	s.adminDo("POST", "/admin/payouts", `{"route":"sandbox","report":"r","amount":"8","reference":"bank-1"}`).want(409, domain.PayoutDiffers)
	s.adminDo("POST", "/admin/projects/prj_1/payouts", `{"amount":"7","reference":"pp-4"}`).want(404, domain.ProjectNotFound)

	var references []string
	for cursor := ""; ; {
		var page wire.Page[wire.Payout]
		m.get("/v1/payouts?limit=2"+cursor).want(200, "").decode(&page)
		for _, p := range page.Data {
			references = append(references, p.Reference+" "+p.Amount.String())
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if want := []string{"pp-3 3.00", "=pp-2 2.00", "pp-1 1.00"}; !slices.Equal(references, want) {
		t.Errorf("%q, want %q", references, want)
	}
	if got := string(other.get("/v1/payouts").want(200, "").Body); !strings.Contains(got, `"data":[]`) {
		t.Errorf("another merchant sees %s", got)
	}
	columns, rows := m.csv("/v1/payouts")
	if columns != "id,amount,currency,reference,created_at" || len(rows) != 3 || rows[1][3] != "'=pp-2" {
		t.Errorf("%s %q", columns, rows)
	}
	for _, wrong := range []string{"status=paid", "account=bank", "from=monday"} {
		m.get("/v1/payouts?"+wrong).want(400, domain.InvalidParameter)
	}
}
