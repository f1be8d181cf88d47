package bus

import (
	"slices"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// TestPaymentSubjects: what outsiders may read are the events of payments, all of them
// and no others.
func TestPaymentSubjects(t *testing.T) {
	t.Parallel()
	for _, e := range eventstore.EventTypes() {
		read := slices.ContainsFunc(PaymentSubjects("prj_a"), func(s string) bool {
			return strings.HasPrefix(EventSubject("prj_a", e.Name), strings.TrimSuffix(s, ">"))
		})
		if _, ofPayment := e.Sample.(domain.PaymentEvent); read != ofPayment {
			t.Errorf("%s can be read: %v", e.Name, read)
		}
	}
}

func TestReplySubject(t *testing.T) {
	t.Parallel()
	for subject, ok := range map[string]bool{
		"_INBOX.abc": true, "_INBOX_connector.abc.d": true, "_INBOX.a-b_C9": true,
		"": false, "_INBOX": false, "_INBOX.": false, "_INBOX..a": false, "_INBOX.a.": false, "_INBOX.*": false, "_INBOX.a.>": false,
		"_INBOX.a b": false, "_INBOX.a\r\nPUB x": false, "_INBOX.é": false, "_INBOXX.a": false, "_INBOX_ledger.a": false,
		"_INBOX_subscriber.a": false, "_INBOX_connectorx.a": false, "payledger.v1.events.p.payment.x": false,
		"$JS.API.STREAM.DELETE.EVENTS": false, " _INBOX.a": false, "_INBOX." + strings.Repeat("a", maxReplySubject): false,
	} {
		got := ReplySubject(map[string][]string{ReplyHeader: {subject}})
		if (got == subject && subject != "") != ok || (!ok && got != "") {
			t.Errorf("%q: %q", subject, got)
		}
	}
	if got := ReplySubject(map[string][]string{ReplyHeader: {"_INBOX.a", "_INBOX.b"}}); got != "" {
		t.Errorf("two subjects: %q", got)
	}
}
