package webhook_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"payledger/domain"
	"payledger/notifier/webhook"
)

func id(t testing.TB, s string) domain.ID {
	t.Helper()
	v, ok := domain.ParseID(s)
	if !ok {
		t.Fatalf("%q is no id", s)
	}
	return v
}

const at = domain.Instant(1795169942400) // 2026-11-20T10:19:02.400Z

// payload has everything that an encoder is tempted to change.
const payload = `{"big":12345678901234567890,"exp":1.50E+2,"html":"<b>&","esc":"\u041f\/\ud83d\ude00","ru":"Привет 🍰","b":1,"a":2}`

func payment(t testing.TB, status domain.PaymentStatus) domain.PaymentObject {
	description := "заказ <1042> & \u2028"
	return domain.PaymentObject{
		ID: id(t, "01M7W78FJBM8T4R7B5N0C1D2E3"), Status: status, Amount: 150000, Currency: "RUB",
		Description: &description, Payload: domain.JSON(payload), CreatedAt: at - 212277,
	}
}

func refund(t testing.TB, status domain.RefundStatus) domain.RefundObject {
	return domain.RefundObject{
		ID: id(t, "01M7W9XM20C2S9D4W6Y8Z1M3P5"), PaymentID: id(t, "01M7W78FJBM8T4R7B5N0C1D2E3"), Status: status,
		Amount: 150000, Currency: "RUB", CreatedAt: at,
	}
}

// notifications has one of each kind.
func notifications(t testing.TB) map[domain.Kind]webhook.Notification {
	n := webhook.Notification{EventID: id(t, "01M7W7EYW0Q6V8B0N5R7T2M4C6"), At: at, Sequence: 3, Position: 88417}
	all := make(map[domain.Kind]webhook.Notification)
	for _, s := range domain.PaymentStatuses() {
		n := n
		n.Kind, n.Data = domain.Kind("payment."+s), payment(t, s)
		all[n.Kind] = n
	}
	for _, s := range domain.RefundStatuses() {
		n := n
		n.Kind, n.Data = domain.Kind("refund."+s), refund(t, s)
		all[n.Kind] = n
	}
	for _, k := range []domain.Kind{domain.KindPaymentDisputed, domain.KindPaymentDisputeWon, domain.KindPaymentDisputeLost} {
		n := n
		n.Kind, n.Data = k, payment(t, domain.Paid)
		all[k] = n
	}
	back := n
	back.Kind, back.Data = domain.KindRefundReturned, refund(t, domain.RefundSucceeded)
	all[back.Kind] = back
	n.Sequence, n.Position, n.Kind, n.Data = 0, 0, domain.KindEndpointTest, webhook.Tested{EndpointID: "we_4kz7q2m9x1"}
	all[n.Kind] = n
	return all
}

// TestBodiesStay compares each kind with its bytes in testdata/body, which are
// never edited: a body under way must come out the same in every later
// version.
func TestBodiesStay(t *testing.T) {
	t.Parallel()
	all := notifications(t)
	for _, kind := range append(domain.Kinds(), domain.KindEndpointTest) {
		n, ok := all[kind]
		if !ok {
			t.Fatalf("no notification of kind %s", kind)
		}
		got, err := webhook.Body(n)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join("testdata", "body", string(kind)+".v1.json")
		want, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
		if of, ok := n.Data.(domain.PaymentObject); ok && !bytes.Contains(got, []byte(`"payload":`+string(of.Payload)+`,`)) {
			t.Errorf("%s: the payload is not as sent: %s", kind, got)
		}
	}
}

func TestBodyRefusesAPayloadThatIsNoJSON(t *testing.T) {
	t.Parallel()
	n := notifications(t)[domain.KindPaymentPaid]
	p := payment(t, domain.Paid)
	p.Payload = domain.JSON("{")
	n.Data = p
	if body, err := webhook.Body(n); err == nil || body != nil {
		t.Errorf("rendered as %s", body)
	}
}
