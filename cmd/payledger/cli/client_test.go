package cli

import (
	"strings"
	"testing"

	"payledger/domain"
	"payledger/httpapi/edge"
	"payledger/httpapi/wire"
)

// A command has no idempotency key: what may have happened is looked up first.
func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	for _, p := range []wire.Problem{{Code: domain.Unconfirmed, Detail: "Repeat it with the same Idempotency-Key."}, edge.Unfinished()} {
		if got := (&Problem{Problem: p}).Error(); strings.Contains(got, "Key") || !strings.Contains(got, "heck whether it is done") {
			t.Error(got)
		}
	}
}
