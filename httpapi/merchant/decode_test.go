package merchant

import (
	"testing"

	"payledger/domain"
)

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"amount":"1500.00","description":"order-1042","payload":{"cart":7}}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, fields, err := paymentCommand(body, domain.DefaultSettings()); err != nil || len(fields) > 0 {
			b.Fatal(err, fields)
		}
	}
}
