package edge

import (
	"errors"
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/wire"
)

// A body that cannot be read is answered with the place where reading stopped,
// and with nothing of what stands there.
func TestPlaceOfFaultInBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]struct {
		code  domain.Code
		place string
	}{
		`{"amount":1,}`:                    {domain.MalformedJSON, "line 1, column 12 (byte 11)"},
		"{\n  \"amount\": 15,00\n}":        {domain.MalformedJSON, "line 2, column 16 (byte 17)"},
		"{\r\n\"descr\": \"größe\", x}":    {domain.MalformedJSON, "line 2, column 19 (byte 23)"},
		`{"amount":"1500.00`:               {domain.MalformedJSON, "line 1, column 19 (byte 18)"},
		"":                                 {domain.BodyRequired, ""},
		"{\"a\":1}\n\n {\"secret\":2}":     {domain.MalformedJSON, "line 3, column 2 (byte 10)"},
		`{'secret':1}`:                     {domain.MalformedJSON, "line 1, column 2 (byte 1)"},
		"{\"a\":1,\n\"secret\":1,\"a\":2}": {domain.DuplicateMember, "line 2, column 12 (byte 19)"},
		`{"secret":"\ud83d"}`:              {domain.InvalidEncoding, "line 1, column 12 (byte 11)"},
		`{"amount":01}`:                    {domain.MalformedJSON, "line 1, column 12 (byte 11)"},
	} {
		_, err := DecodeObject([]byte(body))
		var p wire.Problem
		if !errors.As(err, &p) || p.Code != want.code || !strings.Contains(p.Detail, want.place) || strings.Contains(p.Detail, "secret") {
			t.Errorf("%q: %v, want %s at %s", body, err, want.code, want.place)
		}
	}
}
