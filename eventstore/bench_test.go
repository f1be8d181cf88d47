package eventstore

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
)

// BenchmarkCodec encodes and decodes the events of a payment's whole life. A
// mere pass over the tokens is the baseline.
func BenchmarkCodec(b *testing.B) {
	c := NewCodec()
	var all []Stored
	var events []domain.Event
	for _, e := range EventTypes() {
		switch e.Name {
		case domain.TypePaymentCreated, domain.TypePaymentRouteAssigned, domain.TypePaymentPaid,
			domain.TypeRefundCreated, domain.TypeRefundSucceeded:
			r := sampled(e.Sample, nil)
			var err error
			if r.Body, err = c.Encode(r.Stream, r.Sequence, r.Commit, Cause{}, e.Sample); err != nil {
				b.Fatal(err)
			}
			all, events = append(all, r), append(events, e.Sample)
		}
	}
	for name, do := range map[string]func(i int) bool{
		"valid":  func(i int) bool { return jsontext.Value(all[i].Body).IsValid() },
		"decode": func(i int) bool { _, err := c.Decode(all[i]); return err == nil },
		"encode": func(i int) bool {
			_, err := c.Encode(all[i].Stream, all[i].Sequence, all[i].Commit, Cause{}, events[i])
			return err == nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if !do(i % len(all)) {
					b.Fatal("not done")
				}
			}
		})
	}
}
