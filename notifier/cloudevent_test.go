package notifier

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"payledger/domain"
	"payledger/eventstore"
)

// Messages that were made in one envelope are as if each had its own.
func TestEnvelopesAreUsedAgain(t *testing.T) {
	t.Parallel()
	var e eventEnvelope
	log, ids := domain.ID{1}, domain.NewIDs(time.Now, rand.Reader, domain.ID{})
	for i, before := range []string{"", "A", "B", "", "C"} {
		r := eventstore.Stored{
			Position: eventstore.Position(i + 7), Sequence: uint64(i + 1), Commit: ids.Next(),
			Stream: eventstore.PaymentStream([]string{"prj_a", "prj_b"}[i/2%2], domain.ID{byte(i)}),
			Body:   fmt.Appendf(nil, `{"type":"t%d"}`, i),
		}
		got, err := e.message(log, r, before)
		if err != nil {
			t.Fatal(err)
		}
		want, err := new(eventEnvelope).message(log, r, before)
		if err != nil {
			t.Fatal(err)
		}
		_, expects := got.Header[jetstream.ExpectedLastMsgIDHeader]
		diff := cmp.Diff(want.Header, got.Header)
		if diff != "" || want.Subject != got.Subject || !bytes.Equal(want.Data, got.Data) ||
			got.Header.Get(jetstream.ExpectedLastMsgIDHeader) != before || expects != (before != "") {
			t.Errorf("the message of event %d:\n%v\nwant\n%v\n%s", i, got, want, diff)
		}
	}
}
