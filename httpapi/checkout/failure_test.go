package checkout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"payledger/eventstore"
)

// What may have happened is not said to have failed: the page asks to send the same
// form again.
func TestFailureOfTheLog(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		why    reason
		status int
	}{
		{eventstore.ErrUnconfirmed, undecided, http.StatusServiceUnavailable},
		{eventstore.ErrBusy, unavailable, http.StatusServiceUnavailable},
		{&eventstore.FatalError{Err: errors.New("the disk")}, unavailable, http.StatusServiceUnavailable},
		{context.DeadlineExceeded, unavailable, http.StatusServiceUnavailable},
		{errors.New("a mistake"), broken, http.StatusInternalServerError},
	} {
		f := failureOf(fmt.Errorf("signalling: %w", c.err))
		if f.why != c.why || f.status != c.status || (f.status == http.StatusServiceUnavailable) != (f.retryAfter > 0) {
			t.Errorf("%v: %+v", c.err, f)
		}
	}
}
