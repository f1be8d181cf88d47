package replog

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"payledger/domain"
	"payledger/eventstore"
	"payledger/eventstore/bolt"
	"payledger/eventstore/bolt/record"
)

func TestMessage(t *testing.T) {
	t.Parallel()
	details := append(make([]byte, eventstore.SaltSize), `{"description":"order-1042","payload":{}}`...)
	stored := func(details []byte) []byte {
		bare, _ := record.Split(record.Append(nil, &eventstore.Stored{
			Position: 6, Stream: eventstore.PaymentStream("prj_a", domain.ID{1}), Sequence: 1, Commit: domain.ID{15: 1}, Body: []byte("{}"), Details: details,
		}))
		return bare
	}
	plain, with := stored(nil), stored(details)
	g := &Group{
		Batch: bolt.Batch{
			After:   bolt.Tip{Last: 5, Sum: [32]byte{7}},
			Records: [][]byte{plain, with, with, plain}, Details: [][]byte{nil, details, nil, nil}, // of the third they were erased
		},
		Nonce: Nonce{1, 2, 3},
	}
	m := encode("X", testKey(1), g)
	got, err := decode(m.Header, testKey(1), m.Data)
	if diff := cmp.Diff(g, got); diff != "" || err != nil {
		t.Fatalf("%v (-want +got):\n%s", err, diff)
	}
	if bytes.Contains(m.Data, []byte("order-1042")) {
		t.Errorf("the message says it: %q", m.Data)
	}
	if got, err := decode(m.Header, testKey(2), m.Data); err == nil {
		t.Errorf("read with another key: %+v", got)
	}
	for n := range m.Data {
		cut, err := decode(m.Header, testKey(1), m.Data[:n])
		if err == nil && !bytes.Equal(encode("X", testKey(1), cut).Data, m.Data[:n]) {
			t.Fatalf("the first %d bytes are read as something else", n)
		}
	}
}
