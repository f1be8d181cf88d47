package domain_test

import (
	"testing"

	"github.com/go-json-experiment/json"

	"payledger/domain"
)

// TestObjectsAsMerchantsSeeThem fixes the bytes: these members, in this order, and
// no others.
func TestObjectsAsMerchantsSeeThem(t *testing.T) {
	t.Parallel()
	p := fold(refunded())
	bare := p
	bare.Description, bare.Payload = nil, domain.EmptyObject()
	withLink := p.Object()
	withLink.Instructions = &domain.Instructions{Type: "link", URL: "https://pay.example.com/p/x"}
	refund, ok := p.Refund(id(2))
	if !ok {
		t.Fatal("the refund is gone")
	}
	for name, tt := range map[string]struct {
		object any
		want   string
	}{
		"payment": {
			p.Object(),
			`{"id":"00000000000000000000000001","status":"paid","amount":"1500.00","currency":"RUB",` +
				`"description":"order-1042","payload":{"cart":7},"created_at":"2026-11-20T10:15:30.123Z"}`,
		},
		"payment without anything optional": {
			bare.Object(),
			`{"id":"00000000000000000000000001","status":"paid","amount":"1500.00","currency":"RUB",` +
				`"description":null,"payload":{},"created_at":"2026-11-20T10:15:30.123Z"}`,
		},
		"answer to creation": {
			withLink,
			`{"id":"00000000000000000000000001","status":"paid","amount":"1500.00","currency":"RUB",` +
				`"description":"order-1042","payload":{"cart":7},` +
				`"instructions":{"type":"link","url":"https://pay.example.com/p/x"},"created_at":"2026-11-20T10:15:30.123Z"}`,
		},
		"refund": {
			refund.Object(p.ID),
			`{"id":"00000000000000000000000002","payment_id":"00000000000000000000000001","status":"succeeded",` +
				`"amount":"1500.00","currency":"RUB","created_at":"2026-11-20T11:15:30.123Z"}`,
		},
	} {
		if b, err := json.Marshal(tt.object); err != nil || string(b) != tt.want {
			t.Errorf("%s is written\n%s, %v, want\n%s", name, b, err, tt.want)
		}
	}
	if _, ok := p.Refund(id(9)); ok {
		t.Error("a refund was found that was never made")
	}
}
