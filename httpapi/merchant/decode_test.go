package merchant

import (
	"testing"

	"payledger/domain"
)

func BenchmarkDecode(b *testing.B) {
	body := []byte(`{"amount":"1500.00","description":"order-1042","payload":{"cart":7}}`)
	b.ReportAllocs()
	for b.Loop() {
		req, err := readPayment(body)
		if err != nil {
			b.Fatal(err)
		}
		if _, faults := req.command(domain.DefaultSettings()); len(faults) > 0 {
			b.Fatal(faults)
		}
	}
}
