package main

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sync/errgroup"

	"payledger/cmd/payledger/cli"
)

func TestPaymentLifeOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")

	created := s.do(t, 201, "POST", "/v1/payments", `{"amount":1500,"description":"order-1042","payload":{"cart":7}}`)
	id := created.text(t, "id")
	if got := created.text(t, "status"); got != "awaiting_payment" {
		t.Errorf("status of a new payment: %s", got)
	}
	link := created.object(t)["instructions"].(map[string]any)["url"].(string)
	if !strings.HasPrefix(link, s.BaseURL+"/p/") || strings.Contains(link, id) {
		t.Errorf("payment link: %s", link)
	}
	paid := s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	if paid.text(t, "status") != "paid" || paid.text(t, "amount") != "1500.00" {
		t.Errorf("after the signal: %s", paid.Body)
	}

	refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id))
	if refund.text(t, "status") != "pending" || refund.text(t, "amount") != "1500.00" {
		t.Errorf("new refund: %s", refund.Body)
	}
	rid := refund.text(t, "id")
	s.do(t, 200, "POST", "/v1/sandbox/refunds/"+rid, `{"outcome":"succeeded"}`)
	if got := s.do(t, 200, "GET", "/v1/refunds/"+rid, "").text(t, "status"); got != "succeeded" {
		t.Errorf("refund: %s", got)
	}
	if got := s.do(t, 200, "GET", "/v1/payments/"+id, ""); got.text(t, "status") != "paid" || bytes.Contains(got.Body, []byte("instructions")) {
		t.Errorf("a refunded payment: %s", got.Body)
	}
	if code := s.stop(); code != 0 {
		t.Errorf("exit code of a graceful shutdown: %d", code)
	}
}

func TestLatePaidIsLateFunds(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	id := s.do(t, 201, "POST", "/v1/payments", `{"amount":"10"}`).text(t, "id")
	if got := s.do(t, 200, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"expired"}`).text(t, "status"); got != "expired" {
		t.Fatalf("status: %s", got)
	}
	s.do(t, 409, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"paid"}`)
	if got := s.do(t, 200, "GET", "/v1/payments/"+id, "").text(t, "status"); got != "expired" {
		t.Errorf("late money moved an expired payment to %s", got)
	}
	events := s.do(t, 200, "GET", "/v1/payments/"+id+"/events", "")
	if !bytes.Contains(events.Body, []byte(`"payment.late_funds"`)) || !bytes.Contains(events.Body, []byte(`"after_expired"`)) {
		t.Errorf("late funds are not recorded: %s", events.Body)
	}
}

func TestOneKeyOnePayment(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	const n = 100
	answers := inParallel(t, n, n, func(int) (answer, error) {
		return s.send("POST", "/v1/payments", `{"amount":"1500.00","payload":{"a":"\u003c<"}}`,
			"Idempotency-Key", "0190a6a0-0000-7000-8000-000000000001")
	})
	fresh := 0
	for _, a := range answers {
		if a.Status != 201 || !bytes.Equal(a.Body, answers[0].Body) || a.Header.Get("Location") != answers[0].Header.Get("Location") {
			t.Fatalf("%d %s\nwant 201 %s", a.Status, a.Body, answers[0].Body)
		}
		if a.Header.Get("Idempotent-Replayed") == "" {
			fresh++
		}
	}
	if fresh != 1 {
		t.Errorf("%d answers are not marked as replays, want 1", fresh)
	}
	list := s.do(t, 200, "GET", "/v1/payments", "").object(t)["data"].([]any)
	if len(list) != 1 {
		t.Errorf("%d payments, want 1", len(list))
	}
}

func TestOneRefundOfFifty(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	id := s.paid(t)
	count := map[int]int{}
	for _, a := range inParallel(t, 50, 50, func(int) (answer, error) {
		return s.send("POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id))
	}) {
		count[a.Status]++
		if a.Status == 409 && a.text(t, "code") != "refund_exists" {
			t.Errorf("%s", a.Body)
		}
	}
	if count[201] != 1 || count[409] != 49 {
		t.Errorf("answers by status: %v, want one 201 and 49 × 409", count)
	}
}

func TestProjectsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	id := s.paid(t)
	refund := s.do(t, 201, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id)).text(t, "id")

	other := *s
	other.newProject(t)

	withoutRequestID := func(a answer) string {
		return strings.ReplaceAll(string(a.Body), a.text(t, "request_id"), "")
	}
	unknown := "01M7W78FJBM8T4R7B5N0C1D2E3"
	for _, path := range []string{"/v1/payments/%s", "/v1/payments/%s/events", "/v1/refunds/%s"} {
		mine := id
		if strings.Contains(path, "refunds") {
			mine = refund
		}
		s.do(t, 200, "GET", fmt.Sprintf(path, mine), "")
		theirs := other.do(t, 404, "GET", fmt.Sprintf(path, mine), "")
		nobodys := other.do(t, 404, "GET", fmt.Sprintf(path, unknown), "")
		if withoutRequestID(theirs) != withoutRequestID(nobodys) {
			t.Errorf("a foreign object differs from an unknown one:\n%s\n%s", theirs.Body, nobodys.Body)
		}
	}
	other.do(t, 404, "POST", "/v1/refunds", fmt.Sprintf(`{"payment_id":%q}`, id))
	other.do(t, 404, "POST", "/v1/sandbox/payments/"+id, `{"outcome":"failed"}`)
	if list := other.do(t, 200, "GET", "/v1/payments", "").object(t)["data"].([]any); len(list) != 0 {
		t.Errorf("the other project lists %d payments", len(list))
	}
}

// inParallel makes n requests, atATime of them at a time.
func inParallel(t testing.TB, n, atATime int, send func(int) (answer, error)) []answer {
	t.Helper()
	answers := make([]answer, n)
	var all errgroup.Group
	all.SetLimit(atATime)
	for i := range n {
		all.Go(func() (err error) {
			answers[i], err = send(i)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		t.Fatal(err)
	}
	return answers
}

// TestStatusOfAServerThatHangs: "status" says so in the end, so that whoever watches a server by it learns it.
func TestStatusOfAServerThatHangs(t *testing.T) {
	t.Parallel()
	s := start(t, "demo")
	for _, one := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGCONT} {
		if err := s.cmd.Process.Signal(one); err != nil {
			t.Fatal(err)
		}
		want := map[syscall.Signal]int{syscall.SIGSTOP: cli.ExitFailed}[one]
		if out, code := payledger(t, "status", "--data", s.Data); code != want || want != 0 && !strings.Contains(out, "asking the server: ") {
			t.Errorf("after %v: exit code %d\n%s", one, code, out)
		}
	}
	s.stops(t)
}
