package eventstore_test

import (
	"fmt"
	"testing"

	"payledger/domain"
	"payledger/eventstore"
)

// Every event says in its line which form it has, also one that this program does not know.
func TestFormOf(t *testing.T) {
	t.Parallel()
	codec := eventstore.NewCodec()
	id := domain.ID{1, 160, 112, 116, 98, 90, 26, 100, 54, 67, 17, 187, 4, 24, 14, 3}
	reads := eventstore.Reads()
	for _, e := range eventstore.EventTypes() {
		line, err := codec.Encode(eventstore.PaymentStream("prj_01M7W78FJBM8T4R7B5N0C1D2E3", id), 1, id, e.Sample)
		if f, ok := eventstore.FormOf(line); err != nil || !ok || f != (eventstore.Form{Type: e.Name, Version: e.Version}) {
			t.Errorf("%s: %v, %v, %v", line, f, ok, err)
		}
		if reads[e.Name] != e.Version {
			t.Errorf("%s is read up to version %d", e.Name, reads[e.Name])
		}
	}
	head := fmt.Sprintf(`{"id":%q,`, id)
	for line, want := range map[string]eventstore.Form{
		head + `"type":"payment.tipped","version":7,"data":{}}`:    {Type: "payment.tipped", Version: 7},
		head + `"version":7,"type":"payment.tipped","at":1}`:       {Type: "payment.tipped", Version: 7},
		head + `"type":"payment.tipped","version":12}`:             {Type: "payment.tipped", Version: 12},
		head + `"type":"payment.t\u0069pped","version":7,"at":1}`:  {Type: "payment.tipped", Version: 7},
		head + `"type":"a","version":0,"at":1}`:                    {},
		head + `"type":"a","version":-1,"at":1}`:                   {},
		head + `"type":"a","version":"1","at":1}`:                  {},
		head + `"type":"a","type":"b","version":1`:                 {},
		head + `"type":"a"}`:                                       {},
		head + `"type":"a","version":99999999999999999999,"at":1}`: {},
		`{}`: {}, ``: {}, `[1]`: {}, "null": {},
	} {
		f, ok := eventstore.FormOf([]byte(line))
		if ok != (want != eventstore.Form{}) || ok && f != want {
			t.Errorf("%s has the form %v, %v", line, f, ok)
		}
	}
}
