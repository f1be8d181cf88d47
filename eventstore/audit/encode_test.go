package audit

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"payledger/domain"
)

// TestPackedPaymentsKeepWhatRulesRead: events may follow after many other payments,
// as a return of late funds does.
func TestPackedPaymentsKeepWhatRulesRead(t *testing.T) {
	t.Parallel()
	id, other := domain.ID{1}, domain.ID{2}
	p := domain.Payment{
		Project: "prj_1", ID: id, Status: domain.Paid, Amount: 1500, Currency: "RUB", CreatedAt: 1000, ExpiresAt: 5000, Route: "cards",
		Refunds: []domain.Refund{{ID: other, Status: domain.RefundFailed, Amount: 1500, Currency: "RUB"}},
		Attempts: []domain.Attempt{
			{Number: 1, Status: domain.AttemptFailed}, {Number: 2, Status: domain.AttemptCollected, Reference: "P"},
		},
		Late:            []domain.LateFund{{Reference: "L", Amount: 7, Currency: "USD"}},
		Returns:         []domain.Return{{Refund: domain.Refund{ID: other, Status: domain.RefundPending, Amount: 7, Currency: "USD"}, Reference: "L"}},
		ProviderRefunds: []domain.ProviderRefund{{Reference: "P", RefundReference: "H", Amount: 9, Currency: "RUB"}},
		Settlements: []domain.Settlement{
			{Reference: "P", Debit: domain.MerchantPayable, Credit: domain.Suspense, Amount: 9, Currency: "RUB", Reason: "как договорились"},
		},
		Signals:  []domain.Signal{{Route: "cards", Outcome: domain.OutcomePaid, Reference: "P", Amount: 1500, Currency: "RUB"}},
		Disputes: []domain.Dispute{{Reference: "D", Status: domain.DisputeOpen, Amount: 9, Reason: "fraudulent", OpenedAt: 2000, EvidenceDueBy: 9000}},
		Refused:  3, LateFunds: 1,
	}
	of := reflect.ValueOf(p)
	for i := range of.NumField() {
		if f := of.Type().Field(i); f.Type.Kind() == reflect.Slice && f.Name != "Payload" && of.Field(i).Len() == 0 {
			t.Errorf("%s is not tried", f.Name)
		}
	}
	k := newEncoder()
	h := head{position: 9, sequence: 4, blind: true}
	decoded := k.decode(id, k.encode(&payment{h, 7, true, p}))
	gotHead, got := decoded.head, decoded.state
	if diff := cmp.Diff(p, got, cmpopts.EquateEmpty()); diff != "" || gotHead != h || decoded.created != 7 || !decoded.absent {
		t.Errorf("%+v\n%s", gotHead, diff)
	}
}
