package edge

import (
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"payledger/httpapi/wire"
)

// A body that was cut short and one that took too long are told apart.
func TestBodiesThatDoNotArrive(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		io.ErrUnexpectedEOF: "The body ended before it was complete.",
		fmt.Errorf("read tcp: %w", os.ErrDeadlineExceeded): "The body did not arrive in time.",
	} {
		r := httptest.NewRequest("POST", "/", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(err)))
		r.Header.Set("Content-Type", "application/json")
		x := &Exchange{ResponseWriter: httptest.NewRecorder(), Request: r, Route: &Route{}}
		p, ok := errors.AsType[wire.Problem](x.readBody())
		if !ok || !strings.HasPrefix(p.Detail, want) {
			t.Errorf("%v: %+v", err, p)
		}
	}
}
