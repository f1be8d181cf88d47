package eventstore_test

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"payledger/domain"
	"payledger/eventstore"
)

// The type is found only where a reader of JSON finds it.
func TestTypeOfIsTheType(t *testing.T) {
	t.Parallel()
	const good = `{"id":"01M7W7EYW0Q6V8B0N5R7T2M4C6","type":"payment.paid","version":1}`
	if typ, err := eventstore.TypeOf([]byte(good)); err != nil || typ != domain.TypePaymentPaid {
		t.Errorf("%q, %v", typ, err)
	}
	for i := range good {
		for _, b := range []byte(`"\\ {:,x`) {
			body := []byte(good)
			body[i] = b
			typ, err := eventstore.TypeOf(body)
			if err != nil {
				continue
			}
			d := jsontext.NewDecoder(bytes.NewReader(body))
			var tokens []string
			for range 5 {
				token, err := d.ReadToken()
				if err != nil {
					t.Fatalf("%s: %v", body, err)
				}
				tokens = append(tokens, token.String())
			}
			if tokens[3] != "type" || tokens[4] != typ {
				t.Errorf("%s: %q, want %q", body, typ, tokens[4])
			}
		}
	}
}
