package edge

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"

	"payledger/domain"
)

func TestPaymentsAreWrittenAsReflectionWould(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Just("a<b>&\u2028\"\\\n\x00é\U0001F600"))
		p := domain.PaymentObject{
			ID:        domain.ID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")),
			Status:    domain.PaymentStatus(text.Draw(t, "status")),
			Amount:    domain.Amount(rapid.Int64Range(0, int64(domain.MaxAmount)).Draw(t, "amount")),
			Currency:  domain.Currency(text.Draw(t, "currency")),
			Payload:   rapid.SampledFrom([]domain.JSON{nil, domain.EmptyObject(), domain.JSON(`{"a":"<\u00e9\/","n":12345678901234567890,"e":1E5}`)}).Draw(t, "payload"),
			CreatedAt: domain.Instant(rapid.Int64Range(0, 1<<42).Draw(t, "created_at")),
		}
		if s := text.Draw(t, "description"); rapid.Bool().Draw(t, "described") {
			p.Description = &s
		}
		if rapid.Bool().Draw(t, "created") {
			p.Instructions = &domain.Instructions{Type: text.Draw(t, "type"), URL: text.Draw(t, "url")}
		}
		want, wantErr := json.Marshal(p, AsWritten())
		got, err := encode(new([]byte), p)
		if (err == nil) != (wantErr == nil) || (err == nil && !bytes.Equal(got, want)) {
			t.Fatalf("%s, %v\nwant %s, %v", got, err, want, wantErr)
		}
	})
}
